# Several servers whose Valkey or Redis moves: sentinels give a replica the primary's place, a slot of a cluster gets another
# node, or loses its node.
require_relative "../support/certificates"
require_relative "../support/control"
require_relative "../support/origin"
require_relative "../support/valkey_group"

class FailoverTest < Minitest::Test
  include Scenario
  include Control

  END_OF_JOURNAL = "{paceline:shop}:end".freeze

  def setup
    skip "there is no valkey-server and no redis-server" unless Valkey.program
    # Each answer has a number of its own.
    @numbers, @lock = Hash.new(0), Mutex.new
    @origin = Origin.new do |link, _|
      while (head = link.head)
        target = head.line.split[1]
        link.body(head)
        link.answer(@lock.synchronize { @numbers[target] += 1 }.to_s, fields: ["Cache-Control: max-age=600"])
      end
    end
  end

  def teardown
    @valkeys&.then { |group| group.replica.signal(:CONT) if group.is_a?(WatchedValkey) && group.replica.pid }
    super
    @origin&.close
    @valkeys&.close
  end

  # Starts so many servers; returns when all of them show pages.
  def fronts(count, address, shares: true)
    files = {
      "sentinels" => "#{WatchedValkey::SENTINEL_SECRET}\n",
      "paceline.toml" => <<~TOML,
        [cluster]
        #{address}
        name = "shop"
        partition_ttl = "1h"
        shared_cache = #{shares}
        shared_cache_time = "10s"
        [[site]]
        upstream = "#{@origin.url}"
      TOML
    }
    @fronts = Array.new(count) { serve(app(files), ready: false) }
    @fronts.each { |front| reaches(front) }
  end

  # Waits until a server shows pages and uses the shared cache, if there is one, by the primary at this place.
  def reaches(front, place = nil)
    eventually("a server that uses #{place || "its primary"}") do
      told = control(front, "/cluster")
      told["shows_pages"] && !told["trouble"] && (told["shared_cache"].nil? || told["shared_cache"]["is_connected"]) && (place.nil? || told["primary"] == place)
    end
  end

  def page(front, path) = front.get(path, "Host" => "shop.test")

  # Has the pages in the caches of all servers; their numbers.
  def fill(*paths)
    @fronts.to_h do |front|
      [front, paths.to_h { |path| [path, eventually("#{path} from the cache") { page(front, path).then { |told| Integer(told.body) if told["cache-status"].include?("; hit") } }] }]
    end
  end

  def purge(front, *arguments) = command(front.dir, "purge", *arguments)

  # Visitors ask each server for a page while the block runs; all that was answered.
  def visited(path)
    is_over = false
    visitors = @fronts.map do |front|
      Thread.new do
        answers = []
        until is_over
          told = page(front, path)
          answers << [told.code, Integer(told.body)]
        end
        answers
      end
    end
    yield
    is_over = true
    visitors.flat_map(&:value)
  ensure
    is_over = true
  end

  # Each purge still reaches all servers, and pages are shared again.
  def goes_on
    before = fill("/c")
    told, status = purge(@fronts[1], "http://shop.test/c")
    # One that has just noticed the failover has dropped its page before.
    assert_match(/\A(?:1 response|0 responses) purged here, and 1 other server has confirmed it\n\z/, told)
    assert_equal 0, status
    @fronts.each { |front| assert_operator Integer(page(front, "/c").body), :>, before[front]["/c"] }
    eventually("a page of the other server") do
      path = "/shared-#{@count = @count.to_i + 1}"
      page(@fronts[0], path)
      page(@fronts[1], path)["cache-status"].include?("detail=shared")
    end
  end

  # TLS: certificate, key and the authority's certificate.
  def watched(count = 2, tls: nil, shares: true)
    @valkeys = WatchedValkey.new(tls: tls)
    address = ["url = \"#{@valkeys.url}\"", "sentinel_password_file = \"sentinels\"", ("ca_file = \"#{tls.last}\"" if tls)]
    fronts(count, address.compact.join("\n"), shares: shares)
    @fronts.each { |front| reaches(front, @valkeys.primary_place) }
  end

  # The replica gets nothing any more, not even what is under way.
  def stop_replica
    @valkeys.replica.signal(:STOP)
    @valkeys.cli(@valkeys.primary, "CLIENT", "KILL", "TYPE", "replica")
  end

  def test_after_a_failover_by_sentinels_the_servers_use_the_new_primary
    watched
    purge(@fronts[0], "--tag", "none")
    eventually("the purge at the replica") { @valkeys.cli(@valkeys.replica, "HGET", END_OF_JOURNAL, "number").strip == "1" }
    before = fill("/a")
    answers = visited("/a") do
      @valkeys.primary.kill
      @fronts.each { |front| reaches(front, @valkeys.replica_place) }
    end
    assert_equal before.values.map { |numbers| ["200", numbers["/a"]] }.uniq.sort, answers.uniq.sort, "from the cache, all the time"
    @fronts.each do |front|
      front.wait_for(/Cluster shop: the primary is #{@valkeys.replica_place} now, and not #{@valkeys.primary_place}/)
      refute_match(/dropped/, front.output)
    end
    goes_on
    screen, = command(@fronts[0].dir, "cluster")
    assert_match(/\Ashop, by shop \(sentinels [\d., :]+\), primary #{@valkeys.replica_place}: 2 servers\n/, screen)
    [screen, *@fronts.map(&:output)].each { |text| refute_match(/#{WatchedValkey::SECRET}|#{WatchedValkey::SENTINEL_SECRET}/, text) }
  end

  def test_a_replica_that_lacks_purges_has_everything_dropped
    watched
    before = fill("/a", "/b")
    stop_replica
    assert_match(/1 other server has confirmed/, purge(@fronts[0], "http://shop.test/a").first)
    @valkeys.primary.kill
    @valkeys.replica.signal(:CONT)
    @fronts.each { |front| front.wait_for(/all cached pages are dropped: the journal was emptied, or is an older one/) }
    @fronts.each do |front|
      reaches(front, @valkeys.replica_place)
      %w[/a /b].each { |path| assert_operator Integer(page(front, path).body), :>, before[front][path], path }
    end
    goes_on
  end

  # One server has read the purge; the one that has made it ends with the primary, and the third has missed it.
  def test_who_has_only_read_a_purge_that_a_replica_lacks_tells_the_others
    watched(3, shares: false)
    before = fill("/a", "/b")
    writer, reader, unaware = @fronts
    stop_replica
    unaware.signal(:STOP)
    # Else Valkey writes the entry into its socket, where it finds it when it goes on.
    @valkeys.cli(@valkeys.primary, "CLIENT", "KILL", "TYPE", "normal")
    purge(writer, "http://shop.test/a", "--no-wait")
    eventually("a new page at the server that reads") { Integer(page(reader, "/a").body) > before[reader]["/a"] }
    writer.kill
    @valkeys.primary.kill
    @valkeys.replica.signal(:CONT)
    reader.wait_for(/all cached pages are dropped: the journal was emptied, or is an older one/)
    unaware.signal(:CONT)
    eventually("a new page at the server that knew nothing") { Integer(page(unaware, "/a").body) > before[unaware]["/a"] }
    refute_match(/dropped/, unaware.output, "it was told")
  end

  def test_sentinels_that_speak_only_tls
    dir, authority = app, Authority.new
    watched(tls: [*authority.write(dir, "valkey", ValkeyGroup::HOST), authority.file(dir)])
    purge(@fronts[0], "--tag", "none")
    eventually("the purge at the replica") { @valkeys.cli(@valkeys.replica, "HGET", END_OF_JOURNAL, "number").strip == "1" }
    @valkeys.primary.kill
    @fronts.each { |front| reaches(front, @valkeys.replica_place) }
    @fronts.each { |front| refute_match(/dropped/, front.output) }
    goes_on
  end

  def test_a_slot_of_a_valkey_cluster_that_moves_is_followed
    @valkeys = ValkeyCluster.new
    fronts(2, "url = #{@valkeys.urls.inspect}")
    @fronts.each { |front| reaches(front, @valkeys.owner(END_OF_JOURNAL)) }
    purge(@fronts[0], "--tag", "none")
    before = fill("/a")
    answers = visited("/a") do
      place = @valkeys.move(END_OF_JOURNAL)
      @fronts.each { |front| reaches(front, place) }
    end
    assert_equal before.values.map { |numbers| ["200", numbers["/a"]] }.uniq.sort, answers.uniq.sort, "from the cache, all the time"
    @fronts.each { |front| refute_match(/dropped/, front.output) }
    goes_on
  end

  def test_a_node_of_a_valkey_cluster_that_fails_is_replaced_by_its_replica
    @valkeys = ValkeyCluster.new
    fronts(2, "url = #{@valkeys.urls.inspect}")
    purge(@fronts[0], "--tag", "none")
    before = fill("/a")
    answers = visited("/a") do
      place = @valkeys.fail_over(END_OF_JOURNAL)
      @fronts.each { |front| reaches(front, place) }
    end
    assert_equal before.values.map { |numbers| ["200", numbers["/a"]] }.uniq.sort, answers.uniq.sort, "from the cache, all the time"
    @fronts.each { |front| refute_match(/dropped/, front.output) }
    goes_on
  end

  def test_a_server_that_is_no_node_says_so
    @valkeys = Valkey.new("--bind", ValkeyGroup::HOST, "--port", (port = ValkeyGroup.ports(1).first).to_s)
    front = serve(app("paceline.toml" => "[cluster]\nurl = [\"redis://127.0.0.1:#{port}\"]\n[[site]]\nupstream = \"#{@origin.url}\"\n"), ready: false)
    front.wait_for(/can't be reached: 127.0.0.1:#{port}: it is no node of a Valkey Cluster: give its address as url, and no list/)
  end
end
