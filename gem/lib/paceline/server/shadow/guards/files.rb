# frozen_string_literal: true

require_relative "library"

# Files and folders: a request may read all of them, and write below the application's tmp/cache and the shadow's own folder, which is that for temporary files.
# What it writes to logs goes nowhere. Links count by where they lead. For what is open already see confinement/inherited.rb. What libraries in C and other
# programs write is not looked at: where the kernel can, it keeps them from it (confinement.rb).
module Paceline
  module Server
    module Shadow
      class Guards
        module Files
          WRITING = File::WRONLY | File::RDWR | File::CREAT | File::TRUNC | File::APPEND
          # Pipes and sockets that this process has open, by their names in /proc.
          OPEN = %r{\A/proc/\d+/fd/(?:pipe|socket):}
          private_constant :WRITING, :OPEN

          # Before File.
          module OfFile
            def initialize(path, *arguments, **options)
              path = Files.to_write(path) if Files.writes?(arguments.first, options)
              super
            end

            %i[chmod chown].each do |name|
              define_method(name) do |*arguments|
                Files.to_change(path)
                Confinement.outside { super(*arguments) }
              end
            end
          end

          # Before IO: a descriptor may be opened anew, by a path.
          module OfOpenIO
            def reopen(other, *arguments, **options)
              writes = arguments.empty? && options.empty? ? Files.open_to_write?(self) : Files.writes?(arguments.first, options)
              other = Files.to_write(other) if writes && (other.is_a?(String) || (other.respond_to?(:to_path) && !other.is_a?(IO)))
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
          PATHS = { delete: 0.., unlink: 0.., rename: 0.., symlink: 1.., link: 0.., truncate: 0..0, chmod: 1.., lchmod: 1.., chown: 2.., lchown: 2..,
                    utime: 2.., lutime: 2.., mkfifo: 0..0 }.freeze
          # The kernel refuses these whatever the path is, and follows a link for some.
          FOLLOWED = %i[truncate chmod chown utime].freeze
          ATTRIBUTES = %i[chmod lchmod chown lchown utime lutime truncate].freeze
          OfFileClass = Module.new do
            PATHS.each do |name, paths|
              define_method(name) do |*arguments|
                arguments[paths]&.each { |path| Files.to_change(path, follow: FOLLOWED.include?(name)) }
                ATTRIBUTES.include?(name) ? Confinement.outside { super(*arguments) } : super(*arguments)
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
              @own = slashed(real(Guards.shadow.tmpdir))
              @allowed = [@own, slashed(File.join(@root, "tmp/cache"))]
              @allowed |= @allowed.map { |folder| slashed(real(folder)) }
              @logs = slashed(File.join(@root, "log"))
              File.prepend(OfFile)
              File.singleton_class.prepend(OfFileClass)
              IO.prepend(OfOpenIO)
              IO.singleton_class.prepend(OfIO)
              Dir.singleton_class.prepend(OfDirClass)
              Kernel.prepend(OfKernel)
              Kernel.singleton_class.prepend(OfKernelClass)
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

            # `follow`: a link counts by where it leads. Raises Errno::EROFS.
            def to_change(path, follow: false)
              return if Guards.off? || path.is_a?(Integer) || path.is_a?(IO)

              full = expand(path)
              refuse(full) unless full.nil? || admit?(full, follow: follow)
            end

            # Raises Errno::EROFS. One that is there is not made again (FileUtils.mkdir_p).
            def to_make(folder)
              return if Guards.off?

              full = expand(folder)
              refuse(full) unless full.nil? || File.directory?(full) || admit?(full)
            end

            # Whether it may be written. `full`: an absolute path.
            def admit?(full, follow: true)
              place = follow ? real(full) : File.join(real(File.dirname(full)), File.basename(full))
              Confinement::DEVICES.include?(place) || OPEN.match?(place) || place.start_with?("/proc/#{::Process.pid}/") ||
                @allowed.any? { |folder| place.start_with?(folder) || "#{place}/" == folder }
            end

            # Whether an open IO can be written to.
            def open_to_write?(io)
              !io.closed? && io.fcntl(3) & (File::WRONLY | File::RDWR) != 0 # F_GETFL
            end

            # Whether what a library opens by itself at this path is the application's, and not to be written.
            def kept?(path)
              !Guards.off? && !admit?(File.expand_path(path))
            end

            # Whether it lies below the shadow's own folder.
            def own?(path)
              real(File.expand_path(path)).start_with?(@own)
            end

            def refuse(full)
              Guards.note("file", full.delete_prefix(@root))
              raise Errno::EROFS, full
            end

            private

            # Where a path leads. What is not there yet will be in the folder that its nearest folder leads to.
            def real(path)
              File.realdirpath(path)
            rescue SystemCallError
              parent = File.dirname(path)
              parent == path ? path : File.join(real(parent), File.basename(path))
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

            def slashed(folder)
              "#{folder.chomp("/")}/"
            end
          end
        end
      end
    end
  end
end
