# frozen_string_literal: true

require "helper"
require "json"

# Paceline::Audit: in Rails with a request, in plain scripts, by observers. Each test in a process of its own.
class ContextAuditTest < Paceline::Test
  HERE = %w[rails sqlite3 rack-test].all? { |name| Gem::Specification.find_all_by_name(name).any? }

  def setup
    skip "Rails is not here" unless HERE
  end

  # Loads the application, with the table that the generator's migration makes.
  def rails
    Dir.mktmpdir do |folder|
      ENV["FOLDER"] = folder
      require "context/support/rails_app"
      require "rails/generators"
      require "generators/paceline/audit/audit_generator"
      Rails::Generators.invoke("paceline:audit", ["--quiet"], destination_root: folder)
      migration = Dir[File.join(folder, "db/migrate/*_create_paceline_audits.rb")]
      assert_equal 1, migration.size
      require migration.first
      ActiveRecord::Migration.suppress_messages { CreatePacelineAudits.migrate(:up) }
      yield folder
    end
  end

  def entries(account) = Paceline::Audit::Entry.of(account)

  def test_a_change_within_a_request_says_who_and_from_which
    return if apart

    rails do
      Account.extend(Paceline::Audit).audits(only: [:balance])
      account = Account.create!(balance: 3, note: "new")
      Shopper.new("ann").ask("/pay", id: "pay-1", account: account.id, balance: "5.50")

      made, paid = entries(account).to_a
      assert_equal ["create", nil, nil, { "balance" => [nil, "3.0"] }], [made.action, made.user, made.request_id, made.changed_values]
      assert_equal ["update", USERS["ann"], "pay-1", { "balance" => ["3.0", "5.5"] }], [paid.action, paid.user, paid.request_id, paid.changed_values]
      assert_equal [account, %w[User 1]], [paid.record, [paid.user_type, paid.user_id]]
      assert_match(/\Abalance: "3.0" -> "5.5", by 1, request pay-1, \d{4}-/, paid.to_s)
      assert_equal [paid], Paceline::Audit::Entry.by(USERS["ann"]).to_a

      account.update!(note: "nothing that is audited")
      account.touch
      assert_equal 2, entries(account).size
      account.reload.balance = 9 # which is never saved
      account.destroy!
      assert_equal ["destroy", { "balance" => ["5.5", nil] }], [entries(account).last.action, entries(account).last.changed_values]
      assert_raises(ActiveRecord::ReadOnlyRecord) { paid.update!(user_id: "2") }
      assert_raises(ActiveRecord::ReadOnlyRecord) { paid.destroy }
    end
  end

  def test_a_change_and_its_entry_are_one_transaction
    return if apart

    rails do
      Paceline::Audit.audits "Account"
      account = Account.create!(balance: 3)
      before = entries(account).size
      Account.transaction do
        account.update!(balance: 4)
        assert_equal before + 1, entries(account).size
        raise ActiveRecord::Rollback
      end
      assert_equal [before, 3], [entries(account).size, account.reload.balance]

      # No entry, no change.
      Account.connection.drop_table(:paceline_audits)
      assert_raises(ActiveRecord::StatementInvalid) { account.update!(balance: 5) }
      assert_equal 3, account.reload.balance
    end
  end

  def test_what_is_kept_out_of_logs_is_kept_out_of_audits
    return if apart

    rails do
      Paceline::Audit.audits Account, except: :note
      account = Account.create!(balance: 3, note: "n", pin: "1234", scan: "\xFF\xD8".b)
      assert_equal({ "id" => [nil, account.id], "balance" => [nil, "3.0"], "pin" => [nil, "[FILTERED]"], "scan" => [nil, "2 bytes"] }, entries(account).last.changed_values)
      account.destroy!
      assert_equal ["[FILTERED]", nil], entries(account).last.changed_values["pin"]
    end
  end

  # Rails 7.
  def test_so_are_encrypted_attributes
    return if apart

    rails do
      skip "this Rails encrypts nothing" unless Account.respond_to?(:encrypts)
      ActiveRecord::Encryption.configure(primary_key: "p" * 32, deterministic_key: "d" * 32, key_derivation_salt: "s" * 32)
      Account.encrypts(:note)
      Paceline::Audit.audits Account, only: [:note]
      account = Account.create!(note: "a secret")
      account.update!(note: "another secret")
      assert_equal({ "note" => ["[FILTERED]", "[FILTERED]"] }, entries(account).last.changed_values)
    end
  end

  def test_a_second_rule_replaces_the_first_and_subclasses_have_their_parents
    return if apart

    rails do
      Paceline::Audit.audits Account, only: [:note]
      Paceline::Audit.audits Account, only: [:balance]
      account = Class.new(Account) { def self.name = "Savings" }.create!(balance: 3, note: "n")
      assert_equal [{ "balance" => [nil, "3.0"] }], Paceline::Audit::Entry.all.map(&:changed_values)
      assert_equal "Account", entries(account).first.record_type

      assert_raises(ArgumentError) { Paceline::Audit.audits Account, only: [:a], except: [:b] }
      assert_match(/"Acount": there is no such model/, assert_raises(ArgumentError) { Paceline::Audit.audits "Acount" }.message)
      assert_match(/String is no model/, assert_raises(ArgumentError) { Paceline::Audit.audits "String" }.message)
    end
  end

  # A job's changes are those of the request that enqueued it; a user of no table has a name.
  def test_names_and_jobs
    return if apart

    rails do
      Paceline::Audit.audits Account, only: [:balance]
      account = Account.create!(balance: 3)
      Paceline.current.run(user: Paceline::Identity.new("ann@EXAMPLE.ORG"), request_id: "r1") { account.update!(balance: 4) }
      assert_equal ["ann@EXAMPLE.ORG", nil, "r1"], [entries(account).last.user, entries(account).last.user_type, entries(account).last.request_id]
      assert_equal 1, Paceline::Audit::Entry.by("ann@EXAMPLE.ORG").count
    end
  end

  # As its author wrote it years ago, who had no current_user in an observer.
  def test_observers
    return if apart

    ENV["OBSERVERS"] = "1"
    rails do
      Object.class_eval <<~APPLICATION, __FILE__, __LINE__ + 1
        class Audit < ApplicationRecord
          def self.audit_change(user, account_id, new_balance)
            create!(user_name: user&.name, account_id: account_id, new_balance: new_balance)
          end
        end

        class AccountObserver < ActiveRecord::Observer
          def after_update(record)
            Audit.audit_change(Paceline.current.user, record.id, record.balance)
            Paceline::Audit.record(record, changes: record.saved_changes.slice("balance"))
          end
        end
      APPLICATION
      AccountObserver.instance
      account = Account.create!(balance: 3)
      Shopper.new("bob").ask("/pay", id: "pay-2", account: account.id, balance: "7")

      assert_equal ["bob", account.id, 7], Audit.last.attributes.values_at("user_name", "account_id", "new_balance")
      assert_equal [USERS["bob"], "pay-2", { "balance" => ["3.0", "7.0"] }], [entries(account).last.user, entries(account).last.request_id, entries(account).last.changed_values]
    end
  rescue LoadError => e
    skip "rails-observers is not here (#{e.message})"
  end

  def test_a_model_of_another_database_is_refused
    return if apart

    rails do |folder|
      Object.class_eval "class Ledger < ActiveRecord::Base; self.abstract_class = true; end; class Booking < Ledger; end", __FILE__, __LINE__
      Ledger.establish_connection(adapter: "sqlite3", database: File.join(folder, "ledger.sqlite3"))
      Ledger.connection.create_table(:bookings) { |t| t.integer :amount }
      Paceline::Audit.audits Booking
      error = assert_raises(Paceline::Audit::OtherDatabase) { Booking.create!(amount: 1) }
      assert_match(/Booking is in another database than paceline_audits/, error.message)
      assert_equal 0, Booking.count
    end
  end
end
