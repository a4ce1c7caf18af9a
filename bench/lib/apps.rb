# frozen_string_literal: true

# Prepares the applications that are served, in tmp/bench of the checkout: done once, then found there.
require "digest"
require "fileutils"
require_relative "scenarios"

module Bench
  App = Struct.new(:name, :directory, :environment, keyword_init: true)

  module Apps
    HERE = File.expand_path("../..", __dir__)
    WORK = File.join(HERE, "tmp/bench")

    module_function

    def prepare(name)
      FileUtils.mkdir_p(WORK)
      send(name)
    end

    def rack
      files = File.join(WORK, "files")
      big = File.join(files, "download.bin")
      unless File.size?(big) == Scenarios::DOWNLOAD_BYTES
        FileUtils.mkdir_p(files)
        File.binwrite(big, Random.new(11).bytes(Scenarios::DOWNLOAD_BYTES))
      end
      App.new(name: :rack, directory: File.join(HERE, "bench/apps/rack"), environment: { "BENCH_FILES" => files })
    end

    # Many small applications, two files and a database.
    def cases
      directory = File.join(WORK, "cases")
      source = File.join(HERE, "bench/apps/cases/config.ru")
      FileUtils.mkdir_p(File.join(directory, "public"))
      FileUtils.cp(source, directory)
      RackCases::FILES.each { |name, content| File.binwrite(File.join(directory, "public", name), content) }
      App.new(name: :cases, directory: directory, environment: { "BENCH_WORK" => directory })
    end

    # Where a server may make folders.
    def learned
      directory = File.join(WORK, "learned")
      FileUtils.mkdir_p(directory)
      FileUtils.cp(File.join(HERE, "bench/apps/learned/config.ru"), directory)
      App.new(name: :learned, directory: directory, environment: {})
    end

    # A page that the application has written into public/, as page caching of Rails does.
    def blog
      directory = File.join(WORK, "blog")
      source = File.join(HERE, "bench/apps/blog/config.ru")
      once(directory, [source]) do
        FileUtils.mkdir_p(File.join(directory, "public/posts"))
        FileUtils.cp(source, directory)
        paragraphs = Array.new(60) { |i| "<p>Batch #{i + 1}: the kettle came up to the boil a quarter of an hour late, and nobody could tell why. We held the mash at 64 degrees for an hour.</p>\n" }
        File.write(File.join(directory, "public/posts/1.html"), "<!DOCTYPE html>\n<title>The brew house</title>\n<h1>The brew house</h1>\n#{paragraphs.join}")
      end
      App.new(name: :blog, directory: directory, environment: {})
    end

    def brewery
      directory = File.join(WORK, "brewery")
      more = File.join(HERE, "bench/apps/brewery")
      sources = Dir[File.join(HERE, "examples/brewery/{app,config,db}/**/*.{rb,erb,builder,yml}"), File.join(more, "**/*.rb")]
      once(directory, sources + [File.join(HERE, "test/brewery/prepare")]) do
        command("test/brewery/prepare", directory, "production")
        FileUtils.cp_r("#{more}/.", directory)
      end
      App.new(name: :brewery, directory: directory, environment: {})
    end

    # A page that Builder writes: little is kept, much is allocated.
    def xml = App.new(name: :xml, directory: File.join(HERE, "bench/apps/xml"), environment: {})

    # Much is kept, and a page allocates little.
    def json = App.new(name: :json, directory: File.join(HERE, "bench/apps/json"), environment: {})

    # Redmine's preparation knows itself whether it is done; the issues are added here.
    def redmine
      redmine_of("redmine", [])
    end

    # Debian 13's, in that system.
    def redmine6
      redmine_of("redmine6", [File.join(HERE, "bin/trixie"), "run"])
    end

    # PREFIX: runs a command in its system.
    def redmine_of(name, prefix)
      directory = File.join(WORK, name)
      command(*prefix, File.join(HERE, "test/redmine/prepare"), directory)
      once(directory, [File.join(directory, ".prepared"), File.join(HERE, "bench/apps/redmine_issues.rb")]) do
        command(*prefix, "ruby", "bin/rails", "runner", File.join(HERE, "bench/apps/redmine_issues.rb"),
                chdir: directory, env: { "RAILS_ENV" => "production", "BUNDLE_GEMFILE" => File.join(directory, "Gemfile") })
      end
      App.new(name: name.to_sym, directory: directory, environment: {})
    end

    # Runs the block unless it was run before with the same files.
    def once(directory, sources)
      digest = Digest::SHA256.hexdigest(RUBY_VERSION + sources.sort.map { |path| File.exist?(path) ? File.read(path) : "" }.join)
      stamp = "#{directory}.stamp"
      return if File.exist?(stamp) && File.read(stamp) == digest

      yield
      File.write(stamp, digest)
    end

    def command(*words, chdir: HERE, env: {})
      log = File.join(WORK, "prepare.log")
      return if system(env, *words, chdir: chdir, in: File::NULL, %i[out err] => [log, "w"])

      abort "#{words.join(" ")} failed:\n#{File.readlines(log).last(20).join}"
    end
  end
end
