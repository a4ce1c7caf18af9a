# frozen_string_literal: true

# Histories that the judge must refuse, each beside one that differs in what makes it right. No server is started.
require "minitest/autorun"
require "tempfile"
require_relative "history"
require_relative "judge"

class JudgeTest < Minitest::Test
  PAGE, STALE = "/g0/p1", "/g0/p2"

  def settings = { kind: "settings", ttl: 1, members: 3, stale: [STALE] }

  def read(start, version, member: 1, page: PAGE, **facts)
    { kind: "read", start: start, end: start + 0.01, member: member, page: page, status: 200, body: "#{page} #{version}", cache: "hit; ttl=1", **facts }
  end

  def purge(start, version, outcome = "confirmed", member: 0, page: PAGE, **facts)
    { kind: "purge", start: start, end: start + 0.1, member: member, how: "url", soft: false, wait: true, versions: { page => version }, outcome: outcome, **facts }
  end

  def sent(start, member: 0) = { kind: "sent", start: start, end: start + 0.05, member: member }
  def down(start, till, member: 0) = { kind: "down", start: start, end: till, member: member }
  def fault(start, till, loses: false, **facts) = { kind: "fault", name: "valkey", start: start, end: till, loses: loses, **facts }

  # What is wrong, through a file and back.
  def wrongs(*records)
    history = History.new
    [settings, *records].each { |record| history.add(record[:kind], **record.except(:kind)) }
    Tempfile.create("history") { |file| Judge.new(History.load(history.save(file.path))).wrongs }.tap { |found| assert_equal found, Judge.new(history.records).wrongs }
  end

  def assert_wrong(pattern, *records) = assert_match(pattern, wrongs(*records).join("\n"))
  def assert_right(*records) = assert_empty(wrongs(*records))

  def test_a_confirmed_purge_is_owed_by_all_servers_at_once
    assert_right purge(1, 2), read(1.05, 1), read(1.2, 2)
    assert_wrong(/\Aan old page: read of #{PAGE} at server 1, 1\.200 .* had version 1, and 2 is owed by purge of url at server 0, 1\.000 to 1\.100, which was confirmed\z/,
      purge(1, 2), read(1.2, 1))
    assert_right purge(1, 2), read(1.2, 1, page: STALE)
    assert_wrong(/old page/, purge(1, 2), fault(0, 9, loses: true), down(0.5, 1.15, member: 1), read(1.2, 1))
  end

  def test_later_versions_stay_owed
    assert_wrong(/and 3 is owed/, purge(1, 3), purge(2, 2), read(3, 2))
    assert_right purge(1, 3), purge(2, 2), read(3, 3)
  end

  def test_a_purge_is_owed_by_its_own_server_whatever_becomes_of_it
    assert_wrong(/here\z/, purge(1, 2, "unconfirmed"), read(1.2, 1, member: 0))
    assert_right purge(1, 2, "unconfirmed"), read(1.2, 1)
    assert_right purge(1, 2, "error"), read(1.2, 1, member: 0)
    assert_right purge(1, 2, "unconfirmed"), down(1.2, 1.5), read(1.6, 1, member: 0)
    assert_right purge(1, 2, "unconfirmed"), down(1.05, 1.5), read(1.6, 1, member: 0)
    assert_wrong(/here\z/, purge(1, 2, "unconfirmed"), down(1.2, 1.5, member: 1), read(1.6, 1, member: 0))
  end

  def test_a_purge_in_the_journal_is_owed_by_all_after_a_while
    late = 1.25 + 1 + Judge::SLACK
    before, after = read(late - 0.1, 1), read(late + 0.1, 1)
    assert_right purge(1, 2, "unconfirmed"), sent(1.2), before
    assert_wrong(/which was in the journal at 1\.250\z/, purge(1, 2, "unconfirmed"), sent(1.2), after)
    # Nobody knows whether it was in the journal, or it may have been lost.
    assert_right purge(1, 2, "unconfirmed"), sent(1.05), after
    assert_right purge(1, 2, "unconfirmed"), sent(1.2, member: 2), after
    assert_right purge(1, 2, "unconfirmed"), down(1.15, 1.18), sent(1.2), after
    assert_right purge(1, 2, "unconfirmed"), sent(1.2), fault(1.5, 1.6, loses: true), after
    assert_wrong(/old page/, purge(1, 2, "unconfirmed"), sent(1.2), fault(1.5, 1.6, loses: false), after)
  end

  def test_after_a_failover_a_purge_is_owed_though_nobody_has_confirmed_it
    failover = fault(0.9, 5, late: "unconfirmed")
    late = 5 + 1 + Judge::SLACK
    assert_right purge(1, 2, "unconfirmed"), sent(1.2), failover, read(late - 0.1, 1)
    assert_wrong(/which was in the journal at 1\.250\z/, purge(1, 2, "unconfirmed"), sent(1.2), failover, read(late + 0.1, 1))
    assert_wrong(/which was in the journal/, purge(1, 2, "unconfirmed"), sent(1.2), fault(0.5, 0.9, late: "unconfirmed"), read(late - 0.1, 1))
    assert_wrong(/which was confirmed/, purge(1, 2), failover, read(1.2, 1))
    assert_wrong(/here\z/, purge(1, 2, "unconfirmed"), failover, read(1.2, 1, member: 0))
  end

  def test_two_primaries_delay_confirmed_purges
    split = fault(0.9, 5, late: "all")
    late = 5 + 1 + Judge::SLACK
    assert_right purge(1, 2), split, read(late - 0.1, 1)
    assert_wrong(/which was confirmed/, purge(1, 2), split, read(late + 0.1, 1))
    assert_wrong(/here\z/, purge(1, 2), split, read(1.2, 1, member: 0))
    assert_wrong(/which was confirmed/, purge(6, 2), split, read(6.2, 1))
  end

  def test_visits_owe_as_purges_do
    visit = { kind: "visit", start: 1, end: 1.1, member: 0, page: PAGE, versions: { PAGE => 2 }, outcome: "unconfirmed", status: 200 }
    assert_wrong(/owed by visit of #{PAGE}/, visit, read(1.2, 1, member: 0))
    assert_right visit, read(1.2, 2, member: 0)
  end

  def test_what_may_be_shown_while_it_is_revalidated_owes_nothing_by_a_soft_purge
    assert_right purge(1, 2, page: STALE, soft: true), read(1.2, 1, page: STALE)
    assert_wrong(/old page/, purge(1, 2, page: STALE), read(1.2, 1, page: STALE))
    assert_wrong(/soft purge/, purge(1, 2, soft: true), read(1.2, 1))
  end

  def test_wrong_pages
    assert_wrong(/\Aa wrong page: .* was "#{STALE} 1"\z/, read(1, 1, body: "#{STALE} 1"))
    assert_wrong(/a wrong page/, read(1, 1, body: ""))
    assert_wrong(/a wrong page/, read(1, 0))
    assert_wrong(/a wrong page/, purge(3, 2), read(1, 3))
    assert_right purge(3, 2, "error"), read(1, 2)
  end

  def test_failed_requests
    assert_wrong(/\Aa failed request: .*: status 502\z/, read(1, 1, status: 502))
    assert_wrong(/a failed request: .*: EOFError/, { kind: "read", start: 1, end: 2, member: 1, page: PAGE, error: "EOFError" })
    assert_wrong(/a failed request/, purge(1, 2, "error", error: "Errno::ECONNRESET"))
    assert_right read(1, 1, status: 502), down(0.5, 1.005, member: 1)
    assert_wrong(/a failed request/, read(1, 1, status: 502), down(0.5, 1.005, member: 2))
    assert_wrong(/a failed request/, read(1, 1, status: 502), down(0.5, 0.9, member: 1))
  end
end
