# frozen_string_literal: true

# What three caches make of the same requests, one after the other, at times that are drawn and not waited for: the automatic page cache of
# the server, as it answers; one that drops the pages of a table when that is written, and one that drops each page after some seconds,
# both reckoned from what the application says of each request. A page that was shown in place of another one is counted.
require "digest"

module Bench
  class AutoHitsTrace
    # Of GETs that the application answers with 200.
    Count = Struct.new(:requests, :hits, :wrong) do
      def rate = requests.zero? ? 0.0 : hits / requests.to_f
    end
    CACHES = %i[automatic tables ttl].freeze
    Kept = Struct.new(:digest, :at, :tables)

    attr_reader :pages, :writes

    # `rate`: requests a second. `writes`: of a hundred requests. `ttl`: seconds.
    def initialize(random, rate:, writes:, ttl:)
      @random = random
      @rate = rate
      @share = writes / 100.0
      @ttl = ttl
      @now = 0.0
      @writes = 0
      @kept = CACHES.to_h { |cache| [cache, {}] }
      @pages = Hash.new { |all, page| all[page] = CACHES.to_h { |cache| [cache, Count.new(0, 0, 0)] } }
    end

    # What any request has written, as its answer says.
    def heard(_request, answer)
      written = tables(answer, "written")
      @kept[:tables].delete_if { |_, kept| (kept.tables & written).any? } if written.any?
    end

    def run(crowd, requests)
      requests.times do
        # As of visitors who do not know each other.
        @now -= Math.log(1 - @random.rand) / @rate
        if @random.rand < @share
          crowd.write
          @writes += 1
        end
        ask(crowd, *crowd.visit)
      end
    end

    def total(cache)
      @pages.values.each_with_object(Count.new(0, 0, 0)) { |counts, sum| Count.members.each { |name| sum[name] += counts[cache][name] } }
    end

    private

    def ask(crowd, person, path)
      shown = person.get(path)
      hit = person.hit?(shown)
      real = hit ? person.get(path, Crawl::Person::BESIDE) : shown
      return unless real.code == "200"

      digest = Digest::SHA256.hexdigest(person.plain(real))
      counts = @pages[Crawl::Served.route(path)]
      count(counts[:automatic], hit, person.plain(shown) != person.plain(real))
      reckon(counts, "#{crowd.audience(person)} #{path}", Kept.new(digest, @now, tables(real, "read")))
    end

    # Of both other caches: each would have the page under its address, for all whose pages are alike.
    def reckon(counts, key, page)
      { tables: ->(_) { true }, ttl: ->(kept) { @now - kept.at < @ttl } }.each do |cache, good|
        kept = @kept[cache][key]
        hit = kept && good.call(kept)
        count(counts[cache], hit, hit && kept.digest != page.digest)
        @kept[cache][key] = page unless hit
      end
    end

    def count(counts, hit, wrong)
      counts.requests += 1
      counts.hits += 1 if hit
      counts.wrong += 1 if hit && wrong
    end

    def tables(answer, kind) = answer["server-timing"].to_s[/#{kind};desc="([^"]*)"/, 1].to_s.split
  end
end
