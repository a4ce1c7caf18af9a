# frozen_string_literal: true

module Paceline
  class Context
    # A response's body, whose code belongs to the request: its scope ends after `close`. It has the methods of the body that it is around.
    class Body
      def self.around(body, scope)
        (body.respond_to?(:each) ? Body : StreamingBody).new(body, scope)
      end

      def initialize(body, scope)
        @body = body
        @scope = scope
      end

      def each(&block)
        return enum_for(:each) unless block_given?
        return each_elsewhere(&block) unless @scope.resume

        begin
          @body.each(&block)
        ensure
          @scope.returned
        end
      end

      def close
        body = @body
        return unless body.respond_to?(:close)

        @scope.resume ? body.close : @scope.within { body.close }
      ensure
        @scope.finish
      end

      def respond_to_missing?(name, all = false)
        name != :to_str && @body.respond_to?(name, all)
      end

      def method_missing(name, *arguments, &block)
        case name
        when :to_str then super
        when :to_ary then whole { super }
        else @body.public_send(name, *arguments, &block)
        end
      end

      private

      # In another thread than the application was called in, or when all is over.
      def each_elsewhere(&block)
        @scope.within { @body.each(&block) }
      end

      # Rack 3: who takes a body as an Array has closed it. One of Rails says that it is none by returning nil.
      def whole
        return yield unless @body.respond_to?(:to_ary)

        array = @scope.within { @body.to_ary }
        close if array
        array
      end
    end

    # A body that writes to the client itself (Rack 3).
    class StreamingBody < Body
      undef_method :each

      def call(stream)
        @scope.within { @body.call(stream) }
      end
    end

    # The `rack.hijack` of a response: takes the connection over in the scope, which ends with it.
    class Takeover
      def initialize(hijack, scope)
        @hijack = hijack
        @scope = scope
      end

      def call(io)
        @scope.within { @hijack.call(io) }
      ensure
        @scope.finish
      end
    end
    private_constant :Body, :StreamingBody, :Takeover
  end
end
