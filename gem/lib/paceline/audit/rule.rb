# frozen_string_literal: true

module Paceline
  module Audit
    # Which attributes of a model are recorded, and how an entry of a change is written.
    class Rule
      TIMESTAMPS = %w[created_at updated_at created_on updated_on].freeze
      private_constant :TIMESTAMPS

      # `only`, `except`: names of attributes, or nil. ArgumentError: both.
      def initialize(only: nil, except: nil)
        raise ArgumentError, "audits: use only one of only: and except:" if only && except

        @only = only && Array(only).map(&:to_s)
        @except = except ? Array(except).map(&:to_s) + TIMESTAMPS : TIMESTAMPS
      end

      # Has this model, and those below it, recorded by this rule. ArgumentError: it is no model.
      def apply(model)
        raise ArgumentError, "audits: #{model.inspect} is no model of ActiveRecord" unless model.is_a?(Class) && model < ::ActiveRecord::Base

        model.class_attribute(:paceline_audit, instance_accessor: false) unless model.respond_to?(:paceline_audit)
        hooked = model.paceline_audit
        model.paceline_audit = self
        return if hooked

        model.after_create { self.class.paceline_audit.write(self, :create, saved_changes) }
        model.after_update { self.class.paceline_audit.write(self, :update, saved_changes) }
        model.after_destroy { self.class.paceline_audit.write_end(self) }
      end

      # Writes an entry of these changes ({attribute => [before, after]}). Returns it; nil: none of them is recorded.
      def write(record, action, changes)
        changes = recorded(changes.to_h)
        return if changes.empty?

        placed(record)
        Entry.create!(record_type: record.class.polymorphic_name, record_id: record.id.to_s, action: action.to_s, changed_values: shown(record, changes), **asker)
      end

      # Writes the entry of a record that was destroyed, with what it was.
      def write_end(record)
        was = record.attribute_names.to_h { |name| [name, record.attribute_in_database(name)] }
        write(record, :destroy, was.compact.transform_values { |value| [value, nil] })
      end

      private

      def recorded(changes)
        changes = changes.transform_keys(&:to_s)
        @only ? changes.slice(*@only) : changes.except(*@except)
      end

      # What the entry has of each: nothing that the application keeps out of its logs.
      def shown(record, changes)
        filter = record.class.inspection_filter
        changes.to_h { |name, values| [name, values.map { |value| value.nil? ? nil : readable(filter.filter_param(name, value)) }] }
      end

      # JSON has no bytes.
      def readable(value)
        value = value.to_s if value.is_a?(Delegator) # Rails' mask
        return value unless value.is_a?(String)

        text = value.encoding == Encoding::BINARY ? value.dup.force_encoding(Encoding::UTF_8) : value
        text.valid_encoding? ? text : "#{value.bytesize} bytes"
      end

      def asker
        current = Paceline.current
        user = current.user
        { user_type: (user.class.polymorphic_name if user.is_a?(::ActiveRecord::Base)), user_id: current.user_label, request_id: current.request_id }
      end

      def placed(record)
        return if record.class.connection_pool.equal?(Entry.connection_pool)

        raise OtherDatabase, "#{record.class} is in another database than #{Entry.table_name}, so that a change and its entry can't be in one transaction: " \
                         "audit only models of #{Entry.connection_pool.db_config.name.inspect}"
      end
    end
    private_constant :Rule
  end
end
