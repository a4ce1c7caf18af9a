# frozen_string_literal: true

# A small application of bench/apps/faults with one known fault, and its clean twin. A folder to serve is laid from layers: the bases that several applications
# share, the application's own files, and those of `fault` or `clean`, which are all that the two differ in; a base may have what is clean. db/prepare.rb, db/more.rb and db/after.rb make what
# is no source (database, storage, assets), the same bytes each time. Never runs anything in bench/apps itself.
require "digest"
require "fileutils"
require "json"
require "rbconfig"
require_relative "../lib/servers"
require_relative "scarce_memory"

module Bench
  class DoctorFault
    HOME = File.join(Servers::HERE, "bench/apps/faults")
    BASES = { "rails" => %w[base], "rails_cache" => %w[base cache_base], "rack" => %w[rack_base] }.freeze
    VARIANTS = %w[fault clean].freeze
    PREPARATION = %w[db/prepare.rb db/more.rb db/after.rb].freeze
    # How what the cure brings is measured: a request's time by `paceline bench`, the first request of a new worker, private memory of a worker after load,
    # bytes of a page with its files when it is visited for the first time, requests when it is visited again.
    MEASURES = %w[request first memory first_view second_view].freeze
    # What not every Ruby has, and what fails where it is missing.
    NEEDS = { "yjit" => "YJIT", "native" => "native part of the gem paceline" }.freeze
    PROGRAMS = {
      "yjit" => [RbConfig.ruby, "--yjit", "-e", "exit RubyVM::YJIT.enabled?"],
      "native" => [RbConfig.ruby, "-I", File.join(Servers::HERE, "gem/lib"), "-r", "paceline/native", "-e", "exit !Paceline::Native.nil?"]
    }.freeze
    # What a run of the application may write.
    SCRATCH = %w[log tmp].freeze

    class Failed < StandardError; end

    attr_reader :name

    def self.all
      Dir[File.join(HOME, "*/fault.json")].sort.map { |path| new(File.dirname(path)) }
    end

    def self.named(names)
      known = all
      names.map { |name| known.find { |fault| fault.name == name } or raise ArgumentError, "no application #{name}; there are #{known.map(&:name).join(", ")}" }
    end

    def initialize(directory)
      @directory = directory
      @name = File.basename(directory)
      @facts = JSON.parse(File.read(File.join(directory, "fault.json")))
    end

    def title = @facts.fetch("title")
    # The finding that must be first, and the path that it must be about; "*" is every path.
    def kind = @facts.fetch("kind")
    def path = @facts.fetch("path")
    # What the doctor replays: PATH and healthy ones.
    def paths = @facts.fetch("paths")
    def base = @facts.fetch("base")
    # The file and the line that cure it. A line that begins with "-" is deleted.
    def cure = @facts.fetch("cure")
    def measure = @facts.fetch("measure", "request")
    def clients = @facts.fetch("clients", 1)
    # "paceline" or "puma": under which the fault costs something.
    def server = @facts.fetch("server", "paceline")
    # How the doctor is asked: nil: of the folder; "paths": of a running server, with the paths; "load": of a running server, which it watches under load.
    def live = @facts["live"]
    # Whether requests carry the cookies of an earlier response.
    def cookies? = @facts.fetch("cookies", false)
    # Whether the cure changes what is sent.
    def same_bytes? = @facts.fetch("same_bytes", true)
    # Megabytes that the server's processes may have; nil: all that there are.
    def memory = @facts["memory_mb"]
    # Why nothing can be proved of it on this machine; nil if it can.
    def missing
      return ScarceMemory.missing if memory

      need = @facts["needs"] or return
      @there = system(*PROGRAMS.fetch(need), %i[out err] => File::NULL) if @there.nil?
      "this Ruby has no #{NEEDS.fetch(need)}" unless @there
    end

    # Lays VARIANT into TARGET, which is emptied, and prepares it. Returns TARGET.
    def lay(variant, target, environment = {})
      FileUtils.rm_rf(target)
      FileUtils.mkdir_p(target)
      sources(variant).each { |source, relative| copy(source, File.join(target, relative)) }
      PREPARATION.each { |script| run(script, target, environment) if File.exist?(File.join(target, script)) }
      target
    end

    # [path of a file, its place in the laid folder], the later ones replace the earlier.
    def sources(variant)
      own = files(@directory).reject { |_, relative| relative == "fault.json" || relative.start_with?("fault/", "clean/") }
      shared = BASES.fetch(base).flat_map { |name| files(File.join(HOME, name)) }.reject { |_, relative| server == "puma" && relative == "paceline.toml" }
      shared + own + files(File.join(@directory, variant))
    end

    # Of everything in FOLDER but logs and scratch files.
    def self.checksum(folder)
      found = Dir[File.join(folder, "**/*")].select { |path| File.file?(path) }.map { |path| path.delete_prefix("#{folder}/") }
      lasting = found.reject { |path| path.start_with?(*SCRATCH.map { |name| "#{name}/" }) || path.end_with?("-wal", "-shm", "-lock") }
      Digest::SHA256.hexdigest(lasting.sort.map { |path| "#{path} #{Digest::SHA256.file(File.join(folder, path)).hexdigest}\n" }.join)
    end

    private

    def files(folder)
      Dir[File.join(folder, "**/*")].select { |path| File.file?(path) }.sort.map { |path| [path, path.delete_prefix("#{folder}/")] }
    end

    def copy(source, target)
      FileUtils.mkdir_p(File.dirname(target))
      FileUtils.cp(source, target)
    end

    def run(script, folder, environment)
      output = File.join(folder, "tmp/prepare.log")
      FileUtils.mkdir_p(File.dirname(output))
      ready = system({ "PACELINE_GEM_DIR" => File.join(Servers::HERE, "gem") }.merge(environment), RbConfig.ruby, script, chdir: folder, in: File::NULL, %i[out err] => output)
      raise Failed, "#{name}: #{script} failed: #{File.readlines(output).last(3).join.strip}" unless ready
    end
  end
end
