# frozen_string_literal: true

module Paceline
  module Audit
    # One change: a row of paceline_audits. `record_type` and `record_id`; `action`: create, update or destroy; `changed_values`: {attribute => [before, after]};
    # `user_id`: the user's id or name, and `user_type` if it was a record; `request_id`; `created_at`. It can't be changed once it is written.
    class Entry < ::ActiveRecord::Base
      self.table_name = "paceline_audits"

      # Those of a record, the oldest first.
      scope :of, ->(record) { where(record_type: record.class.polymorphic_name, record_id: record.id.to_s).order(:id) }
      # Those by a user: a record, or what Paceline.current.user_label says.
      scope :by, lambda { |user|
        user.is_a?(::ActiveRecord::Base) ? where(user_type: user.class.polymorphic_name, user_id: user.id.to_s) : where(user_id: user.to_s)
      }

      # The record, or nil if it is gone.
      def record
        found(record_type, record_id)
      end

      # The user's record; the name of one who has none; nil: nobody, or gone.
      def user
        user_type ? found(user_type, user_id) : user_id
      end

      # On one line.
      def to_s
        changed = changed_values.map { |name, (before, after)| "#{name}: #{before.inspect} -> #{after.inspect}" }
        [*changed, *("by #{user_id}" if user_id), *("request #{request_id}" if request_id), created_at.utc].join(", ")
      end

      def readonly?
        persisted?
      end

      private

      def found(type, id)
        type.safe_constantize&.find_by(id: id)
      end
    end
  end
end
