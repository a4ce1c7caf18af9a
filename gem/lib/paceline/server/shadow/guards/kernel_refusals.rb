# frozen_string_literal: true

# What the kernel refuses though no guard knows of it (confinement.rb) is noted as a write when Ruby raises the error, whoever rescues that then. It never
# refuses anything itself, and hears nothing of what libraries in C and other programs are refused.
module Paceline
  module Server
    module Shadow
      class Guards
        module KernelRefusals
          # As Ruby says where: "Permission denied @ rb_sysopen - /path".
          PATH = %r{(?: - | @ \S+ - )(/.*)\z}m
          private_constant :PATH

          # Before the classes of such errors.
          module Noting
            def initialize(*)
              super
              KernelRefusals.note(message)
            end
          end

          class << self
            def there?
              true
            end

            def install
              [Errno::EACCES, Errno::EPERM].each { |error| error.prepend(Noting) }
            end

            # A file that the account may not read is no write.
            def note(message)
              return if Guards.off?

              path = message[PATH, 1]
              return if path && File.exist?(path) && !File.readable?(path)

              Guards.note("file", path ? path.delete_prefix("#{Guards.shadow.root.chomp("/")}/") : message)
            end
          end
        end
      end
    end
  end
end
