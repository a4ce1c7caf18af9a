# frozen_string_literal: true

# The application behind all servers: pages with a version each, behind a Unix socket, so that faults of the network do not touch it. It renders slowly enough
# for purges to come in between, and never says more than what its page is at that moment.
require "socket"
require_relative "../../e2e/support/origin"

class Pages
  HOST = "soak.test"
  COUNT = 12
  # A page has its version when it is asked for, and takes up to so long from there.
  RENDERING = 0.03

  Page = Struct.new(:path, :tag, :lives) do
    def url = "http://#{HOST}#{path}"
    def prefix = "http://#{HOST}#{path[%r{\A/\w+/}]}"
    # It may be shown while it is revalidated.
    def stale? = lives.include?("stale")
    # What a purge of each kind names.
    def names = { url: url, tag: tag, prefix: prefix, all: true }
  end

  ALL = Array.new(COUNT) do |number|
    lives = { 0 => "max-age=1", 1 => "max-age=600, stale-while-revalidate=600" }.fetch(number / 2 % 3, "max-age=600")
    Page.new("/g#{number % 3}/p#{number}", "t#{number % 4}", lives).freeze
  end.freeze

  attr_reader :path, :asked

  def initialize(folder, seed)
    @path = File.join(folder, "application")
    @versions, @lock, @random, @asked = ALL.to_h { |page| [page.path, 1] }, Mutex.new, Random.new(seed), 0
    @origin = Origin.new(UNIXServer.new(@path)) { |link, _| answer(link) }
  end

  # All pages that a purge covers get another version: {path => version}.
  def change(how, name)
    paths = ALL.select { |page| page.names[how] == name }.map(&:path)
    @lock.synchronize { paths.to_h { |path| [path, @versions[path] += 1] } }
  end

  def version(path) = @lock.synchronize { @versions.fetch(path) }

  def close = @origin.close

  private

  def answer(link)
    while (head = link.head)
      method, path, = head.line.split
      link.body(head)
      page = ALL.find { |one| one.path == path } or next link.answer("none", status: "404 Not Found")
      next link.answer("#{path} #{change(:url, page.url)[path]}") if method == "POST"
      version, pause = @lock.synchronize { [@versions[path], @random.rand(RENDERING).tap { @asked += 1 }] }
      sleep pause
      fields = [%(ETag: "#{version}"), "Cache-Control: #{page.lives}", "Surrogate-Key: #{page.tag}"]
      next link.write("HTTP/1.1 304 Not Modified\r\n#{fields.join("\r\n")}\r\n\r\n") if head["if-none-match"] == %("#{version}")
      link.answer("#{path} #{version}", fields: fields)
    end
  end
end
