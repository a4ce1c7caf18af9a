# frozen_string_literal: true

# Copies of files in a private folder, each made when it is first asked for. The files themselves are only read.
module Paceline
  module Server
    module Shadow
      class FileCopies
        # `folder`: a private folder. A block is given each new copy that has content.
        def initialize(folder, &prepare)
          @folder = folder
          @prepare = prepare
          @copies = {}
          @lock = Thread::Mutex.new
        end

        # The copy's path; of a file that is not there, where it would be.
        def path(file)
          original = File.expand_path(file)
          return original if original.start_with?("#{@folder}/")

          @lock.synchronize { @copies[original] ||= copy(original) }
        end

        private

        def copy(original)
          folder = File.join(@folder, @copies.size.to_s)
          [@folder, folder].each { |path| Dir.mkdir(path, 0o700) unless File.directory?(path) }
          copied = File.join(folder, File.basename(original))
          return copied unless File.file?(original)

          File.open(copied, File::WRONLY | File::CREAT | File::EXCL, 0o600) { |file| IO.copy_stream(original, file) }
          @prepare&.call(copied)
          copied
        end
      end
    end
  end
end
