# frozen_string_literal: true

# Somebody who works in Redmine with a session of his own: logs in once, then adds, edits and deletes issues and looks each time
# whether the pages show it. Runs in a process of its own; tells how long each request took and which pages were stale.
require "json"
require_relative "../lib/processes"
require_relative "../../test/e2e/support/issue_form"

module Bench
  class RedmineAuthor
    # TIMES: {step => [seconds, ...]}; STALE: what a page did not show, one for each; FAILURE: why the work was broken off, if it was.
    Result = Struct.new(:times, :stale, :cycles, :failure, keyword_init: true)

    class Unexpected < StandardError; end
    class Over < StandardError; end

    def initialize(port, account)
      @port = port
      @account = JSON.parse(File.read(account))
      @times = Hash.new { |times, step| times[step] = [] }
      @stale = []
      @cycles = 0
    end

    # Works until the block is done, which is given the pid; or CYCLES times.
    def in_child(cycles: nil)
      reading, writing = IO.pipe(binmode: true)
      pid = fork do
        reading.close
        trap("TERM") { @over = true }
        writing.write(Marshal.dump(work(cycles)))
        writing.close
        exit!(0)
      end
      writing.close
      yield pid
      Process.kill("TERM", pid) unless cycles
      answer = reading.read
      Process.waitpid(pid)
      pid = nil
      raise "the author failed" if answer.empty?

      Marshal.load(answer) # our own child wrote it
    ensure
      Process.kill("KILL", pid) if pid
      reading&.close
    end

    # The Cookie header of somebody who has just logged in.
    def self.session(port, account)
      author = new(port, account)
      author.send(:log_in)
      author.send(:visitor).cookies.map { |pair| pair.join("=") }.join("; ")
    end

    private

    def visitor
      @visitor ||= Visitor.new("http://127.0.0.1:#{@port}")
    end

    def work(cycles)
      log_in
      until @cycles == cycles
        cycle
        @cycles += 1
      end
      told
    rescue Over
      told
    rescue StandardError => e
      told("#{e.class}: #{e.message}")
    end

    def told(failure = nil)
      Result.new(times: Hash[@times], stale: @stale, cycles: @cycles, failure: failure)
    end

    def log_in
      step("log in: form", "200") { visitor.get("/login") }
      step("log in", "302") { visitor.post("/login", { "username" => @account["login"], "password" => @account["password"] }) }
      page = step("front page", "200") { visitor.get("/") }
      raise Unexpected, "not logged in" unless page.body.include?("loggedas")
    end

    def cycle
      subject = "Gauge reads low #{Process.clock_gettime(Process::CLOCK_REALTIME, :nanosecond)}"
      list
      form = step("new: form", "200") { visitor.get("#{project}/new") }
      created = step("new", "302") { visitor.post(project, IssueForm.fields(form.body).merge("issue[subject]" => subject)) }
      path = URI(created["location"]).path
      shows("the new issue", issue(path), subject)
      shows("the new issue in the list", list, subject)
      form = step("edit: form", "200") { visitor.get("#{path}/edit") }
      step("edit", "302") do
        visitor.post(path, IssueForm.fields(form.body).merge("_method" => "patch", "issue[subject]" => "#{subject}, mended", "issue[notes]" => "A new dial."))
      end
      shows("the edit", issue(path), "#{subject}, mended")
      shows("the edit in the list", list, "#{subject}, mended")
      step("delete", "302") { visitor.post(path, { "_method" => "delete" }) }
      @stale << "the deleted issue in the list" if list.body.include?(subject)
      @stale << "the deleted issue" unless step("deleted issue", "404", "200") { visitor.get(path) }.code == "404"
    end

    def project
      "/projects/#{@account["project"]}/issues"
    end

    def list
      step("list", "200") { visitor.get(project) }
    end

    def issue(path)
      step("issue", "200", "404") { visitor.get(path) }
    end

    def shows(what, answer, text)
      @stale << what unless answer.body.include?(text)
    end

    # An interrupted cycle may leave an issue behind.
    def step(name, *codes)
      raise Over if @over

      began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      answer = yield
      raise Over if @over
      raise Unexpected, "#{name}: #{answer.code}" unless codes.include?(answer.code)

      @times[name] << Process.clock_gettime(Process::CLOCK_MONOTONIC) - began
      answer
    end
  end
end
