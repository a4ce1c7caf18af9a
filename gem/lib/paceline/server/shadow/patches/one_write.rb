# frozen_string_literal: true

# The pieces of each body are joined into one, as a server does that gathers them. A body that the application writes by itself (Rack 3) stays as it is.
module Paceline
  module Server
    module Shadow
      module Patches
        class OneWrite
          # A body of one piece. `to_path` is left out, so that it is read here.
          class Body
            def initialize(body)
              @body = body
            end

            def each
              joined = String.new(encoding: Encoding::BINARY)
              @body.each { |piece| joined << piece.b }
              yield joined unless joined.empty?
            end

            def close
              @body.close if @body.respond_to?(:close)
            end
          end

          def self.apply(_params, shadow)
            shadow.app = new(shadow.app)
          end

          def initialize(app)
            @app = app
          end

          def call(env)
            response = @app.call(env).to_a
            body = response[2]
            body.respond_to?(:each) ? [response[0], response[1], Body.new(body)] : response
          end
        end
      end
    end
  end
end
