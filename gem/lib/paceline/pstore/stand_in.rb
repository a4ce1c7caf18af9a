# frozen_string_literal: true

require_relative "import"
require_relative "plain_file"

module Paceline
  class PStore
    # A PStore where the gem has no native part: Ruby's own file, which RecordFile takes over once there is one. Leaves a file of records alone.
    class StandIn < PlainFile
      private

      def use(file)
        Records.needed("#{@path}, a file of records,") unless file.stat.size.zero? || Import.marshal?(@path)
        super
      end
    end
    private_constant :StandIn
  end
end
