# frozen_string_literal: true

require_relative "library"

# Files and folders: a request may read all of them, and write below the application's tmp/cache and what is allowed besides, and what it makes itself
# below the folder for temporary files: what others have there is theirs. What it writes to logs goes nowhere. For what is open already see quiet.rb. What other programs write is not looked at.
module Paceline
  module Server
    module Shadow
      class Guards
        module Files
          WRITING = File::WRONLY | File::RDWR | File::CREAT | File::TRUNC | File::APPEND
          DEVICES = %w[/dev/ /proc/].freeze
          private_constant :WRITING, :DEVICES

          # Before File.
          module OfFile
            def initialize(path, *arguments, **options)
              path = Files.to_write(path) if Files.writes?(arguments.first, options)
              super
            end
          end

          # Before IO's class methods, and with them File's.
          module OfIO
            def write(path, ...)
              super(Files.to_write(path), ...)
            end

            def binwrite(path, ...)
              super(Files.to_write(path), ...)
            end

            def sysopen(path, *arguments)
              path = Files.to_write(path) if Files.writes?(arguments.first, {})
              super
            end

            def copy_stream(from, to, *arguments)
              to = Files.to_write(to) if to.is_a?(String) || to.respond_to?(:to_path) && !to.is_a?(IO)
              super
            end
          end

          # Before Kernel's class methods.
          module OfKernelClass
            def open(path, *arguments, **options, &block)
              path = Files.to_write(path) if (path.is_a?(String) || path.respond_to?(:to_path)) && Files.writes?(arguments.first, options)
              super
            end
          end

          # Before Kernel.
          module OfKernel
            include OfKernelClass
            private :open
          end

          # Of these class methods of File all arguments are paths, or those from the second or third on.
          PATHS = { delete: 0.., unlink: 0.., rename: 0.., symlink: 1.., link: 1.., truncate: 0..0, chmod: 1.., lchmod: 1.., chown: 2.., lchown: 2..,
                    utime: 2.., lutime: 2.., mkfifo: 0..0 }.freeze
          OfFileClass = Module.new do
            PATHS.each do |name, paths|
              define_method(name) do |*arguments|
                arguments[paths]&.each { |path| Files.to_change(path) }
                super(*arguments)
              end
            end
          end
          OfDirClass = Module.new do
            define_method(:mkdir) do |path, *arguments|
              Files.to_make(path)
              super(path, *arguments)
            end

            %i[rmdir delete unlink].each do |name|
              define_method(name) do |path, *arguments|
                Files.to_change(path)
                super(path, *arguments)
              end
            end
          end

          # Before the class methods of Zlib::GzipWriter, which opens files by itself.
          module OfGzipWriter
            def open(path, ...)
              super(Files.to_write(path), ...)
            end
          end

          # The library may be loaded later than a shadow begins.
          GZIP = Library.new("Zlib::GzipWriter", OfGzipWriter, method: :open, singleton: true)

          class << self
            def there?
              true
            end

            def install
              @root = slashed(Guards.shadow.root)
              @temporary = slashed(temporary_folder)
              @made = {}
              @allowed = [slashed(File.join(@root, "tmp/cache")), *DEVICES]
              @logs = slashed(File.join(@root, "log"))
              File.prepend(OfFile)
              File.singleton_class.prepend(OfFileClass)
              IO.singleton_class.prepend(OfIO)
              Dir.singleton_class.prepend(OfDirClass)
              Kernel.prepend(OfKernel)
              Kernel.singleton_class.prepend(OfKernelClass)
            end

            # From now on also below this folder.
            def allow(folder)
              @allowed += [slashed(File.expand_path(folder))]
            end

            # Whether a file is opened for writing so. `mode`: as File.open takes it.
            def writes?(mode, options)
              flags?(options[:flags]) || flags?(mode.nil? ? options[:mode] : mode)
            end

            # The path to open instead. Raises Errno::EROFS.
            def to_write(path)
              return path if Guards.off? || path.is_a?(Integer)

              full = expand(path)
              return path if full.nil? || admit?(full)
              return File::NULL if full.start_with?(@logs) || full.end_with?(".log")

              refuse(full)
            end

            # Raises Errno::EROFS.
            def to_change(path)
              return if Guards.off? || path.is_a?(Integer) || path.is_a?(IO)

              full = expand(path)
              refuse(full) unless full.nil? || admit?(full)
            end

            # Raises Errno::EROFS. One that is there is not made again (FileUtils.mkdir_p).
            def to_make(folder)
              return if Guards.off?

              full = expand(folder)
              refuse(full) unless full.nil? || exists?(full) || admit?(full)
            end

            # Whether it may be written, as is done next. `full`: an absolute path.
            def admit?(full)
              return true if @allowed.any? { |folder| full.start_with?(folder) || "#{full}/" == folder }

              temporary?(full) && (made?(full) || (@made[full] = !exists?(full)))
            end

            # Whether what a library opens by itself at this path is the application's, and not to be written.
            def kept?(path)
              !Guards.off? && !admit?(File.expand_path(path))
            end

            # Whether it lies below the shadow's own folder.
            def own?(path)
              File.expand_path(path).start_with?(slashed(Guards.shadow.tmpdir_path))
            end

            def refuse(full)
              Guards.note("file", full.delete_prefix(@root))
              raise Errno::EROFS, full
            end

            private

            def temporary?(full)
              full.start_with?(@temporary) && !(full.start_with?(@root) && @root.start_with?(@temporary))
            end

            # Whether this shadow has made it, or a folder that it is in.
            def made?(full)
              until @made[full]
                return false if full.length <= @temporary.length

                full = File.dirname(full)
              end
              true
            end

            # A link counts, wherever it leads.
            def exists?(full)
              File.lstat(full)
              true
            rescue SystemCallError
              false
            end

            def flags?(mode)
              case mode
              when nil then false
              when Integer then mode & WRITING != 0
              else mode.to_s[/\A[^:]*/].match?(/[wa+]/)
              end
            end

            # Nil: what the method itself will refuse, or a program.
            def expand(path)
              path = path.to_path if path.respond_to?(:to_path)
              return if !path.is_a?(String) || path.start_with?("|")

              File.expand_path(path)
            rescue ArgumentError, EncodingError
              nil
            end

            def temporary_folder
              defined?(::Dir.tmpdir) ? Dir.tmpdir : File.dirname(Guards.shadow.tmpdir_path)
            end

            def slashed(folder)
              "#{folder.chomp("/")}/"
            end
          end
        end
      end
    end
  end
end
