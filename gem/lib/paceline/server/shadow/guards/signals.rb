# frozen_string_literal: true

require_relative "../../process_stat"

# Signals: a shadow sends them to itself and to its children. A page that has a server start again, or a worker end, would do so with each replay.
module Paceline
  module Server
    module Shadow
      class Guards
        module Signals
          # Before Process's own methods.
          module OfProcess
            def kill(signal, *pids)
              Signals.check(signal, pids)
              signal == 0 ? Confinement.outside { super } : super
            end
          end

          class << self
            def there?
              true
            end

            def install
              ::Process.singleton_class.prepend(OfProcess)
            end

            # Raises Errno::EPERM. Number 0 only asks whether a process is there.
            def check(signal, pids)
              return if Guards.off? || signal == 0
              return if !of_groups?(signal) && pids.all? { |pid| own?(pid) }

              Guards.note("signal", "the signal #{signal} to another process")
              raise Errno::EPERM, "a shadow sends no signals"
            end

            private

            # As -15 and "-TERM".
            def of_groups?(signal)
              signal.to_s.start_with?("-")
            end

            # 0 and below mean groups of processes, and the server's may be one of them.
            def own?(pid)
              pid == ::Process.pid || (pid.is_a?(Integer) && pid.positive? && ProcessStat.of(pid)&.parent == ::Process.pid)
            end
          end
        end
      end
    end
  end
end
