# frozen_string_literal: true

require_relative "../trust"

module Paceline
  class PStore
    # Whether a file may be loaded, in PStore's errors.
    module Trust
      module_function

      # Raises Error if the file (a File::Stat) belongs to somebody else or is everybody's to write.
      def check(path, stat)
        why = Paceline::Trust.doubt(stat) or return

        raise Error, "#{path} is not loaded, because #{why}, and its data could run code. Change its owner, or pass `trust: true`"
      end
    end
    private_constant :Trust
  end
end
