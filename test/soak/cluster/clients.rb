# frozen_string_literal: true

# Clients of all servers: they read, change pages and purge them, visit with POST, and look whether purges are in the journal, each at random and at its own
# pace. All goes into the history; whether it was right is judged later.
require_relative "history"
require_relative "pages"

class Clients
  READERS, WRITERS = 6, 2
  # On average between two steps of one client.
  READ_PAUSE, WRITE_PAUSE, LOOK_PAUSE = 0.03, 0.12, 0.2

  def initialize(members, pages, history, seed)
    @members, @pages, @history, @seed = members, pages, history, seed
    @ends = false
    @threads = Array.new(READERS) { |number| client(number, READ_PAUSE) { |random| read(random) } } +
      Array.new(WRITERS) { |number| client(100 + number, WRITE_PAUSE) { |random| random.rand(5).zero? ? visit(random) : purge(random) } } +
      members.map { |member| client(200 + member.number, LOOK_PAUSE) { look(member) } }
  end

  # Returns when all have their last answer.
  def close
    @ends = true
    @threads.each(&:join)
  end

  def read(random) = page(a_member(random), Pages::ALL.sample(random: random))

  # Reads one page at one server.
  def page(member, page)
    request("read", member, page: page.path) do
      answer = member.get(page.path)
      { status: answer.status, body: answer.body, cache: answer["cache-status"]&.delete_prefix("paceline; ") }
    end
  end

  def purge(random, member: a_member(random), wait: random.rand(2).zero?)
    how, name = Pages::ALL.sample(random: random).names.to_a.then { |names| names[[0, 0, 0, 1, 1, 2, 2, 3].sample(random: random)] }
    soft = random.rand(4).zero?
    versions = @pages.change(how, name)
    request("purge", member, how: how, soft: soft, wait: wait, versions: versions, outcome: "error") do
      status, said = member.control("/cache/purge", { how => name, soft: soft, wait: wait })
      # That nobody can be asked is said with a failure; the page is purged here all the same.
      raise "status #{status}: #{said}" unless status == 200 || (wait && status >= 500)
      { outcome: said["confirmed"] ? "confirmed" : "unconfirmed", said: said["error"] }.compact
    end
  end

  private

  def client(number, pause)
    random = Random.new((@seed * 1000) + number)
    Thread.new do
      until @ends
        yield random
        sleep(random.rand(2 * pause))
      end
    end
  end

  def a_member(random) = @members.select(&:up?).then { |up| up.empty? ? @members : up }.sample(random: random)

  def visit(random)
    page, member = Pages::ALL.sample(random: random), a_member(random)
    request("visit", member, page: page.path, versions: {}, outcome: "error") do
      answer = member.post(page.path)
      # Somebody may have changed it since: this version is owed at least.
      answer.status == 200 ? { status: 200, versions: { page.path => answer.body.split.last.to_i }, outcome: "unconfirmed" } : { status: answer.status }
    end
  end

  # Twice nothing to send: between the two whatever was on its way to be counted is counted.
  def look(member)
    return unless member.up?
    start = History.now
    2.times do
      return unless member.control("/cluster").last["unsent"]&.zero?
      sleep 0.02
    end
    @history.add("sent", start: start, member: member.number) if member.up?
  rescue SystemCallError, EOFError, Timeout::Error, Wire::Broken, JSON::ParserError
    # It was killed meanwhile.
    nil
  end

  def request(kind, member, **facts)
    start = History.now
    found = begin
      yield
    rescue StandardError => e
      { error: "#{e.class}: #{e.message[0, 200]}" }
    end
    @history.add(kind, start: start, member: member.number, **facts, **found)
  end
end
