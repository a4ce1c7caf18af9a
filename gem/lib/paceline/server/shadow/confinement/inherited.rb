# frozen_string_literal: true

# What was open before the fork, by Ruby or by a library in C: the kernel asks for rights when a file is opened, and not when it is written. Descriptors keep
# their numbers. It leaves alone what only this process has, and memory that a library shares with others.
require_relative "../quiet"

module Paceline
  module Server
    module Shadow
      module Confinement
        module Inherited
          FOLDER = "/proc/self/fd"
          # How a descriptor was opened: O_ACCMODE, in the octal digits of fdinfo.
          ACCESS = 0o3
          STANDARD = 2
          private_constant :FOLDER, :ACCESS, :STANDARD

          class << self
            # Files can be read from here on; what was opened only for writing, and the ends of pipes that another process reads, lead nowhere.
            def only_read
              all = descriptors
              read = all.filter_map { |_, name, way| name if name.start_with?("pipe:") && way == File::RDONLY }
              all.each do |number, name, way|
                next if way == File::RDONLY || number <= STANDARD

                if name.start_with?("pipe:") then lead_nowhere(number) unless read.include?(name)
                elsif (stat = file(number)) && !Quiet.own?(stat)
                  way == File::RDWR ? Quiet.only_read(number) : lead_nowhere(number)
                end
              end
            end

            # The block says whether the socket of a number leads to another process.
            def lead_sockets_nowhere
              descriptors.each { |number, name,| lead_nowhere(number) if number > STANDARD && name.start_with?("socket:") && yield(number) }
            end

            private

            # [number, what it leads to, how it was opened]
            def descriptors
              Dir.children(FOLDER).map(&:to_i).sort.filter_map do |number|
                [number, File.readlink("#{FOLDER}/#{number}"), File.read("/proc/self/fdinfo/#{number}")[/^flags:\s*(\d+)/, 1].oct & ACCESS]
              rescue SystemCallError
                nil # that which the folder was read by
              end
            end

            def file(number)
              stat = File.stat("#{FOLDER}/#{number}")
              stat if stat.file?
            end

            def lead_nowhere(number)
              File.open(File::NULL, File::RDWR) { |null| IO.for_fd(number, "w", autoclose: false).reopen(null) }
            rescue SystemCallError
              nil # it is closed
            end
          end
        end
      end
    end
  end
end
