# frozen_string_literal: true

# Who changed what, from which request: a row of the table paceline_audits for each change of a record, written in the transaction of the change.
#
#   bin/rails generate paceline:audit && bin/rails db:migrate
#
#   class Account < ApplicationRecord
#     extend Paceline::Audit
#     audits only: [:balance]
#   end
#
#   account.update!(balance: 5)
#   Paceline::Audit::Entry.of(account).last.to_s    # "balance: 3 -> 5, by 42, request 4f0c..., 2026-11-25 10:12:31 UTC"
#
# It sees what runs callbacks: not update_all, update_column(s), delete, insert_all. Needs ActiveRecord; without a request an entry has no user. It never
# changes an entry. Guide: docs/audit.md.
require "active_record"
require_relative "context"
require_relative "audit/entry"
require_relative "audit/rule"

module Paceline
  module Audit
    # The record is in another database than the entries, so that they can't be written in one transaction.
    class OtherDatabase < StandardError; end

    @named = []

    class << self
      # Writes an entry for this record, as from an observer: `action` :create, :update or :destroy; `changes`: {attribute => [before, after]}, those that were
      # saved last. Returns the Entry; nil: nothing has changed. Raises OtherDatabase, and what ActiveRecord raises.
      #
      #   class AccountObserver < ActiveRecord::Observer
      #     def after_update(account) = Paceline::Audit.record(account)
      #   end
      def record(record, action: :update, changes: record.saved_changes)
        Rule.new.write(record, action, changes)
      end

      # Models that were named by Strings, now that the application's code is loaded. Rails calls it, also when the code was loaded again.
      def attach(named = @named)
        named.each do |name, rule|
          rule.apply(name.safe_constantize || raise(ArgumentError, "audits #{name.inspect}: there is no such model"))
        end
      end

      # @api private
      def postpone(names, rule)
        named = names.map { |name| [name, rule] }
        attach(named) if defined?(::Rails.application) && ::Rails.application&.initialized?
        @named.concat(named)
      end
    end

    module_function

    # Records the changes of these models: classes or their names; none: the class that it is called in. `only`, `except`: attributes; default: all but those
    # that Rails sets (created_at, updated_at). What filter_attributes names, such as passwords, is recorded as [FILTERED]. A second time: with other attributes.
    #
    #   Paceline::Audit.audits "Account", only: [:balance]    # in an initializer: by name, since Rails loads classes again
    def audits(*models, only: nil, except: nil)
      rule = Rule.new(only: only, except: except)
      models = [self] if models.empty?
      names, classes = models.flatten.partition { |model| model.is_a?(String) || model.is_a?(Symbol) }
      Audit.postpone(names.map(&:to_s), rule) unless names.empty?
      classes.each { |model| rule.apply(model) }
    end
    public :audits
  end
end
