# frozen_string_literal: true

# By which association of ActiveRecord's a query loads its records. It only takes note.
module Paceline
  module Server
    module Shadow
      class Evidence
        module Associations
          # Before ActiveRecord::Associations::Association's own method, which all kinds of associations load by.
          module Targets
            private

            def find_target(...)
              before = Thread.current[:paceline_association]
              Thread.current[:paceline_association] = reflection
              super
            ensure
              Thread.current[:paceline_association] = before
            end
          end

          module_function

          # The one that is being loaded in this thread, as `["Beer", "brewery"]`: the class that declares it, and its name. Nil: none.
          def current
            reflection = Thread.current[:paceline_association] or return
            [reflection.active_record.name.to_s, reflection.name.to_s]
          end
        end
      end
    end
  end
end
