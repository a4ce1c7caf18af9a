# frozen_string_literal: true

require_relative "support/shadow_case"

# The time and the random numbers of a replay are those that the driver wants.
class ShadowHeldTest < ShadowCase
  TIMES = {
    "/now" => "Time.now.to_i", "/new" => "Time.new.to_i", "/zone" => "Time.now(in: '+09:00').iso8601(0)", "/unit" => "Process.clock_gettime(Process::CLOCK_REALTIME, :second)",
    "/float" => "Process.clock_gettime(Process::CLOCK_REALTIME).floor", "/coarse" => "Process.clock_gettime(Process::CLOCK_REALTIME_COARSE, :second)",
    "/milli" => "Process.clock_gettime(Process::CLOCK_REALTIME, :millisecond) / 1000", "/float_milli" => "(Process.clock_gettime(Process::CLOCK_REALTIME, :float_millisecond) / 1000).floor",
    "/datetime" => "DateTime.now.to_time.to_i"
  }.freeze
  RANDOM = {
    "/rand" => "rand", "/random" => "Random.rand(1000)", "/bytes" => "Random.bytes(8).unpack1('H*')", "/new" => "Random.new.rand", "/seed" => "Random.new_seed",
    "/urandom" => "Random.urandom(8).unpack1('H*')", "/shuffle" => "(1..20).to_a.shuffle.inspect", "/sample" => "(1..1000).to_a.sample(random: Random.new)",
    "/hex" => "SecureRandom.hex", "/uuid" => "SecureRandom.uuid", "/number" => "SecureRandom.random_number(1_000_000)", "/alphanumeric" => "SecureRandom.alphanumeric(20)",
    "/openssl" => "OpenSSL::Random.random_bytes(8).unpack1('H*')", "/iv" => "OpenSSL::Cipher.new('aes-256-gcm').encrypt.random_iv.unpack1('H*')",
    "/id" => "env['HTTP_X_REQUEST_ID']"
  }.freeze

  # None is what another is.
  ALL = "[SecureRandom.hex, SecureRandom.hex, OpenSSL::Random.random_bytes(16).unpack1('H*'), env['HTTP_X_REQUEST_ID']].uniq.size"

  def test_the_time_of_day_starts_at_the_clock
    code = "ENV['TZ'] = 'UTC'\nrequire 'date'\nrequire 'time'\n#{routes(TIMES.merge("/today" => "Date.today", "/month" => "DateTime.now.month"))}"
    with_shadow(code) do |shadow|
      [1_764_000_000.0, 946_684_799.5].each do |clock|
        TIMES.each_key do |path|
          next if path == "/zone"

          assert_includes [clock.to_i, clock.to_i + 1], Integer(shadow.get(path, clock: clock)["text"]), path
        end
      end
      assert_equal "2025-11-26T01:00:00+09:00", shadow.get("/zone", clock: 1_764_086_400.0)["text"]
      assert_equal %w[1999-12-31 12], %w[/today /month].map { |path| shadow.get(path, clock: 946_684_000.0)["text"] }
    end
  end

  def test_other_clocks_and_times_stay_real
    code = routes("/monotonic" => "Process.clock_gettime(Process::CLOCK_MONOTONIC)", "/given" => "[Time.new(2001, 2, 3).day, Time.at(5).to_i, Time.mktime(2001).year].inspect",
                  "/passes" => "(a = Time.now; b = Time.now; (b - a).between?(0, 60) && Time.now.is_a?(Time))",
                  "/wrong" => "begin; Process.clock_gettime(Process::CLOCK_REALTIME, :weeks); rescue ArgumentError => e; e.message; end")
    with_shadow(code) do |shadow|
      before = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      assert_includes before..before + FakeFront::LIMIT, Float(shadow.get("/monotonic")["text"])
      assert_equal "[3, 5, 2001]", shadow.get("/given")["text"]
      assert_equal "true", shadow.get("/passes")["text"]
      assert_equal "unexpected unit: weeks", shadow.get("/wrong")["text"]
    end
  end

  def test_random_numbers_follow_from_the_seed
    with_shadow("require 'securerandom'\nrequire 'openssl'\n#{routes(RANDOM.merge("/all" => ALL))}") do |one, dir, front|
      another = shadow(front, dir)
      RANDOM.each_key do |path|
        first = one.get(path, seed: 5)["text"]
        assert_equal [first] * 3, [one.get(path, seed: 5), another.get(path, seed: 5), one.get(path, seed: 5)].map { |result| result["text"] }, path
        refute_equal first, one.get(path, seed: 6)["text"], path
      end
      assert_equal "4", one.get("/all")["text"]
    end
  end

  def test_libraries_that_are_loaded_by_a_request
    with_shadow(routes("/random" => "(require 'openssl'; OpenSSL::Random.random_bytes(8).unpack1('H*'))", "/date" => "(require 'date'; Date.today.year)")) do |shadow|
      assert_equal shadow.get("/random")["text"], shadow.get("/random")["text"]
      assert_equal "1999", shadow.get("/date", clock: 946_000_000.0)["text"]
    end
  end
end
