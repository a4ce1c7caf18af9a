# frozen_string_literal: true

module Paceline
  class Context
    # A job runs in the context that it was enqueued in: its user, request id, trace and values. Before ActiveJob::Base. What a queue stores of it is that
    # and no more: records as GlobalIDs, which are loaded when the job asks for them; the user's label, which is left when the record is gone.
    module Jobs
      KEY = "paceline"
      private_constant :KEY

      def serialize
        carried = @paceline_carried || Carriage.pack
        carried.nil? || carried.empty? ? super : super.merge(KEY => carried)
      end

      def deserialize(job_data)
        super
        @paceline_carried = job_data[KEY] || {}
      end

      # One that was not enqueued runs where it is called.
      def perform_now
        return super unless @paceline_carried

        Slot.with(Carriage.unpack(@paceline_carried)) { super }
      end
    end

    # A scope in the words of a job's data, and back.
    module Carriage
      @left_out = {}

      class << self
        # The scope of here and now as a Hash for JSON; nil: there is none.
        def pack
          scope = Slot.scope or return
          identity = scope.identity
          { "request_id" => scope.request_id, "trace" => scope.trace, "label" => scope.user_label, "user" => argument(scope.user),
            "identity" => identity && [identity.name, identity.groups, identity.mechanism], "values" => values(scope.values) }.compact
        end

        # A scope of such a Hash; nil of an empty one.
        def unpack(carried)
          return if carried.empty?

          values = carried["values"]&.to_h { |name, packed| [name.to_sym, loaded(packed)] }
          Scope.new(CarriedSource.new(carried), values: values)
        end

        # What such an argument stands for; nil: it is gone.
        def loaded(packed)
          packed && ::ActiveJob::Arguments.deserialize(packed).first
        rescue ::ActiveJob::DeserializationError
          nil
        end

        private

        def argument(value)
          ::ActiveJob::Arguments.serialize([value]) unless value.nil?
        rescue ::ActiveJob::SerializationError
          nil
        end

        def values(values)
          packed = values.filter_map do |name, value|
            argument = argument(value)
            leave_out(name, value) if argument.nil? && !value.nil?
            [name.to_s, argument] if argument
          end
          packed.to_h unless packed.empty?
        end

        # Said once of each.
        def leave_out(name, value)
          return if @left_out[name]

          @left_out[name] = true
          ::ActiveJob::Base.logger&.warn("Paceline.current[#{name.inspect}] is not carried with jobs: Active Job can't serialize #{value.class}")
        end
      end
    end

    # What came with a job. The user is an Identity where the application had none of its own.
    class CarriedSource
      def initialize(carried)
        @carried = carried
      end

      def user
        packed = @carried["user"]
        return Carriage.loaded(packed) if packed

        identity if identity && identity.name == label
      end

      def identity
        told = @carried["identity"]
        told && Identity.new(*told)
      end

      def request_id
        @carried["request_id"]
      end

      def trace
        @carried["trace"]
      end

      def label
        @carried["label"]
      end
    end
    private_constant :Jobs, :Carriage, :CarriedSource
  end
end
