# frozen_string_literal: true

require_relative "support/caches"

# Random programs by Rails' MemoryStore and by ours, with a clock: the same answers. `SEED=` and `COUNT=` for other and longer runs.
class CacheDifferentialTest < CacheTestCase
  include ActiveSupport::Testing::TimeHelpers if defined?(ActiveSupport::Testing::TimeHelpers)

  SEED = Integer(ENV.fetch("SEED", "1"))
  COUNT = Integer(ENV["COUNT"] || 60)
  STEPS = %i[read read fetch fetch fetch_nil write write write write_unless_exist exist delete read_multi write_multi fetch_multi delete_multi increment
             decrement delete_matched cleanup clear wait wait].freeze
  NAMES = ["a", "b", "ä", :c, ["a", 1], { k: 1 }, "x" * 600, "n1", "n2"].freeze
  VALUES = [nil, false, 1, 7, "text", "ü", "\xFF".b, [1, { a: "b" }], "long " * 5000, 1.5, :symbol].freeze

  # Rails 7.2's lets a value that follows on an expired one live for twice `race_condition_ttl`, whatever it was told.
  module AsToldInRaces
    private

    def handle_expired_entry(entry, key, options) = super(entry, key, options.dup)
  end

  def setup
    super
    skip "there is no Rails here" unless defined?(ActiveSupport::Cache)
    @format = ActiveSupport::Cache.format_version if ActiveSupport::Cache.respond_to?(:format_version)
    ActiveSupport::Cache.format_version = 7.1 if @format && ActiveSupport.gem_version >= Gem::Version.new("7.1")
  end

  def teardown
    ActiveSupport::Cache.format_version = @format if @format
    super
  end

  def test_the_same_answers_as_the_memory_store
    random = Random.new(SEED)
    COUNT.times do |number|
      program = Array.new(random.rand(5..60)) do
        [STEPS.sample(random: random), *Array.new(2) { NAMES.sample(random: random) }, VALUES.sample(random: random), options(random)]
      end
      settings = random.rand(3).zero? ? { namespace: "ns", expires_in: 20 } : {}
      stock = run_program(program, ActiveSupport::Cache.lookup_store(:memory_store, settings).extend(AsToldInRaces))
      ours = run_program(program, rails_store(**settings))
      stock.zip(ours).each_with_index do |(theirs, mine), step|
        assert_equal theirs, mine, "SEED=#{SEED}, program #{number}, step #{step}: #{program[0..step].inspect}"
      end
      rails_store.clear
    end
  end

  private

  def options(random)
    found = {}
    found[:expires_in] = random.rand(1..30) if random.rand(2).zero?
    found[:race_condition_ttl] = random.rand(1..10) if random.rand(3).zero?
    found[:namespace] = "other" if random.rand(6).zero?
    found[:version] = random.rand(2).to_s if random.rand(6).zero?
    found[:force] = true if random.rand(12).zero?
    # Where nothing follows on an expired value, the old one is seen for as long as `race_condition_ttl`, if it was there still: the memory store
    # drops it when somebody reads it, ours when it needs the room.
    found[:skip_nil] = true if random.rand(6).zero? && !found[:race_condition_ttl]
    found
  end

  def run_program(program, store)
    travel_to(Time.utc(2030)) do
      program.map do |step, name, other, value, options|
        # With ours, what has expired is gone; the memory store keeps it until it is read.
        forget(store, name, other, options) unless step.start_with?("fetch") && options[:race_condition_ttl]
        answer = begin
          take(store, step, name, other, value, options)
        rescue StandardError => e
          [e.class]
        end
        [answer, *state(store)]
      end
    end
  end

  def forget(store, *names, options)
    return unless store.is_a?(ActiveSupport::Cache::MemoryStore)

    names.each { |name| store.read(name, namespace: options.fetch(:namespace) { store.options[:namespace] }) }
  end

  def take(store, step, name, other, value, options)
    unforced = options.reject { |key, _| key == :force }
    case step
    when :read then store.read(name, unforced)
    when :fetch then store.fetch(name, options) { value }
    when :fetch_nil then store.fetch(name, options) { nil }
    when :write then store.write(name, value, options)
    when :write_unless_exist then store.write(name, value, options.merge(unless_exist: true))
    when :exist then store.exist?(name, unforced)
    when :delete then store.read(name, namespace: options.fetch(:namespace) { store.options[:namespace] }) && store.delete(name, unforced)
    when :read_multi then store.read_multi(name, other, unforced)
    when :write_multi then store.write_multi({ name => value, other => 1 }, unforced) && true
    when :fetch_multi then store.fetch_multi(name, other, unforced) { |it| [it, value] }
    when :delete_multi then [name, other].each { |it| store.read(it, unforced) } && store.delete_multi([name, other].uniq, unforced) && true
    when :increment, :decrement then count(store, step, name, value, unforced)
    when :delete_matched then store.delete_matched(/\A(\w+:)?a/, unforced.slice(:namespace)) && true
    when :cleanup then store.cleanup && true
    when :clear then store.clear && true
    when :wait then travel(value.is_a?(Numeric) ? value : 11)
    end
  end

  # Of what has no number Ruby knows what to say.
  def count(store, step, name, value, options)
    store.write(name, value.is_a?(Integer) ? value : "5", options) if value
    store.public_send(step, name, value.is_a?(Integer) ? value : 1, **options)
  end

  def state(store)
    [{}, { namespace: "other" }, { version: "1" }].map { |options| NAMES.map { |name| store.exist?(name, options) } }
  end
end
