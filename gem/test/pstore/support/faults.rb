# frozen_string_literal: true

require "digest"
require "fileutils"
require "rbconfig"
require "tmpdir"

# Lets the system fail under a process, or end it, at a certain call for a certain file: faults.c, by LD_PRELOAD.
module Faults
  CALLS = { open: 1, write: 2, sync: 4, truncate: 8, map: 16, rename: 32, unlock: 64 }.freeze
  ACTS = { fail: 1, short: 2, kill_before: 3, kill_after: 4, kill_within: 5, fail_on: 6, short_on: 7 }.freeze
  SOURCE = File.join(__dir__, "faults.c")

  module_function

  # The compiled library, or nil where there is no compiler.
  def library
    return @library if defined?(@library)

    file = File.join(Dir.tmpdir, "paceline-faults-#{Process.uid}-#{Digest::SHA256.file(SOURCE).hexdigest[0, 16]}-#{RbConfig::CONFIG["arch"]}.so")
    @library = File.owned?(file) || compile(file) ? file : nil
  end

  def compile(file)
    fresh = "#{file}.#{Process.pid}"
    system("cc", "-O1", "-shared", "-fPIC", "-o", fresh, SOURCE, "-ldl", out: File::NULL, err: File::NULL) && File.rename(fresh, file)
  end

  # The environment of a process under it.
  def environment(path, orders, log: nil)
    { "LD_PRELOAD" => library, "FAULTS_PATH" => path, "FAULTS_ORDERS" => orders.path, "FAULTS_LOG" => log }.compact
  end

  # What shall happen, told at any time to all that were started with it.
  class Orders
    attr_reader :path

    def initialize(path)
      @path = path
      @file = File.open(path, File::RDWR | File::CREAT | File::BINARY)
      @file.truncate(4096) if @file.size.zero?
    end

    # From now on: call number `at` of `calls` does `act`, with the number of an error.
    def give(act, at, calls, code = 0)
      @file.pwrite([at, 0, ACTS.fetch(act), code, calls.sum { |call| CALLS.fetch(call) }, 0].pack("q6"), 0)
    end

    # All goes well again. How many of the calls there were.
    def none
      count = @file.pread(48, 0).unpack("q6")[1]
      @file.pwrite([0, 0, 0, 0, 0, 0].pack("q6"), 0)
      count
    end
  end
end
