# frozen_string_literal: true

# The process that holds the loaded application and forks workers from it, as the front commands. It loads the app
# once and never serves a request; when the front is gone, it and its workers go too.
require_relative "app_loader"
require_relative "boot_threads"
require_relative "control"
require_relative "database"
require_relative "failure"
require_relative "forked_child"
require_relative "heap_figures"
require_relative "parent_death"
require_relative "tuning"
require_relative "worker"

module Paceline
  module Server
    class Preloader
      # `app`: an application loaded already (a Rack handler's, or a worker's that becomes a mold); nil: load it as START says.
      def initialize(control, app: nil, hooks: nil, mold: false)
        @control = control
        @app = app
        @hooks = hooks
        @mold = mold
        @adopted = !app.nil? && !mold
        @has_forked = mold
        @figures = HeapFigures.new
        @workers = {}
        @lock = Mutex.new
      end

      # The whole life of the process, which ends with the front.
      def run
        ParentDeath.follow
        step_back if ENV.delete("PACELINE_BACKGROUND")
        STDOUT.sync = STDERR.sync = true # what the app printed last matters most when it does not start
        ignore_signals
        live
      end

      # The rest of the life of a worker's process: it has come out of another preloader, and goes on after that one.
      # `front`: the front's pid.
      def run_mold(front)
        ignore_signals
        ParentDeath.follow_next(front)
        live
      end

      # Serves in a process that was adopted and has a life of its own; returns when the front is gone.
      def run_adopted
        ForkedChild.guard(self)
        start && serve && stopped
      rescue ProtocolError, Control::FrontGone => e
        warn "paceline preloader: #{e.class}: #{e.message}"
      ensure
        kill_workers unless @forked || ForkedChild.here?
      end

      # In a child that the application has forked.
      def let_go
        @control.close
      end

      private

      def step_back
        require_relative "background"
        Background.become
      end

      def live
        ForkedChild.guard(self)
        start && serve && stopped
      rescue Exception => e # nothing may pass silently by the end of the process
        ForkedChild.leave(e) if ForkedChild.here? && !@forked
        warn "paceline preloader: #{e.class}: #{e.message}", *e.backtrace.first(5)
      ensure
        unless @forked || ForkedChild.here?
          kill_workers
          exit!(0)
        end
      end

      # False when the front went before it said what to do.
      def start
        while (type, payload = @control.read)
          case type
          when Frames::CONFIGURE then configure(Frames.parse_pairs(payload))
          when Frames::ENVIRONMENT then ENV.update(Frames.parse_pairs(payload))
          when Frames::START
            @settings = Frames.parse_pairs(payload)
            title
            load
            return true
          end
        end
        false
      end

      # Reads config/puma.rb for the front, whose settings it decides, and keeps its hooks for the application that is
      # loaded here next.
      def configure(asked)
        @settings = asked
        Process.setproctitle("paceline preloader [#{asked["site"]}]") unless @adopted
        watch_front_while do
          unless asked["environment"].to_s.empty? || @adopted
            ENV["RACK_ENV"] = ENV["RAILS_ENV"] = ENV["APP_ENV"] = asked["environment"]
          end
          AppLoader.set_up_libraries(asked["gemfile"], asked["root"]) unless @adopted
          read_hooks(asked, asked["puma_config"].delete_prefix(File.join(asked["root"], "")))
        end
        ForkedChild.leave if ForkedChild.here?
        @control.send(Frames::CONFIGURED, Frames.fields(*@hooks.settings.flatten))
      rescue Control::FrontGone
        raise
      rescue Exception => e # a file may raise anything, `exit` and syntax errors among it
        fail_with(e, "settings")
      end

      # The front hears the terminal and the service manager, and tells this process by its control socket.
      def ignore_signals
        %w[INT TERM QUIT HUP USR1 USR2 TTIN TTOU].each { |name| trap(name) {} } # "IGNORE" would pass to the app's children
      end

      def title
        Process.setproctitle("paceline preloader [#{@settings["site"]}]")
      end

      def load
        @loader = AppLoader.new(@settings) { |name, edge| @forked || ForkedChild.here? || tell_step(name, edge) }
        watch_front_while do
          if @mold
            Tuning.new(@settings).settle(young: true)
          elsif @adopted
            require "stringio"
            require "rack"
            Tuning.new(@settings).prepare(@app)
            @boot_threads = BootThreads.new(@settings["root"], before: [Thread.main])
          else
            @loader.prepare
            load_hooks
            boot if preload?
          end
          load_hooks unless @mold
        end
        announce_writes
        ForkedChild.leave if ForkedChild.here?
        @control.send(Frames::LOADED, Frames.pairs(@loader.versions.merge("pid" => Process.pid)))
      rescue Control::FrontGone
        raise
      rescue Exception => e # whatever the app raises, `exit` among it, is a failure to report
        fail_with(e)
      end

      # The front shows no page of the automatic page cache while a process of the application does not.
      def announce_writes
        AutoCache.stand_by if defined?(AutoCache) && AutoCache.journal && !@adopted
      end

      def preload?
        @settings["preload"] != "0"
      end

      # Before the application, which may use what the file sets (`ENV["X"] ||= ...`). Once: the front may have had it read.
      def load_hooks
        # One worker may be none, for the file's eyes.
        settings = @settings["workers"] == "1" ? @settings.except("workers") : @settings
        read_hooks(settings, @settings["puma_config"]) unless @hooks || @settings["puma_config"].to_s.empty?
      end

      # A file may load the application, or parts of it.
      def read_hooks(settings, path)
        AppLoader.loads!(settings["served_folder"]) unless @adopted
        require_relative "puma_config"
        @hooks = PumaConfig.load(File.expand_path(path), settings["environment"], workers: settings["workers"])
      end

      def boot
        @boot_threads = BootThreads.new(@settings["root"])
        @app = @boot_threads.watching { @loader.load(@hooks&.app) }
      end

      def tell_step(name, edge)
        @control.send(Frames::STEP, Frames.fields(name, edge, Worker.now))
      end

      def fail_with(error, step = @loader&.current_step)
        ForkedChild.leave(error) if ForkedChild.here?
        failure = Failure.new(error, step: step, root: @settings["root"])
        @control.send(Frames::FAILED, Frames.pairs(failure.of_start)) # the front tells the terminal and the browser
        raise error if @adopted
        exit!(1)
      end

      # An app may take a minute to load; the front's death must not wait for it, and the front may ask where it is.
      def watch_front_while
        loading = Thread.current
        watch = Thread.new do
          loop do
            type, = @control.read
            exit!(1) unless type
            tell_backtrace(loading) if type == Frames::ASK_BACKTRACE
          end
        end
        watch.report_on_exception = false
        yield
      ensure
        watch&.kill&.join
      end

      # Where it is, and how the application came there: of its own lines, and the first three of others.
      def tell_backtrace(thread)
        root = File.join(@settings["root"], "")
        frames = Array(thread.backtrace).select.with_index { |frame, depth| depth < 3 || frame.start_with?(root) }
        STDERR.puts "The application was not ready in time. It is here:", frames.first(15).map { |line| "    #{line}" }
      rescue IOError
        nil
      end

      def serve
        while (type, payload = @control.read)
          case type
          when Frames::FORK then fork_worker(*numbers(payload))
          when Frames::BOOTED then booted
          when Frames::STOPPED then stopped
          when Frames::SHADOW then fork_shadow(Frames.parse_fields(payload).first)
          when Frames::ASK_MEMORY then @control.send(Frames::MEMORY, Frames.pairs(@figures.to_h))
          when Frames::RELEASE then @lock.synchronize { @workers.delete(numbers(payload).first) }
          end
        end
        true
      end

      def numbers(payload)
        Frames.parse_fields(payload).map { |text| Integer(text, 10) }
      end

      def fork_worker(index, threads)
        mend_outputs
        prepare_fork(index - 1)
        ours, theirs = UNIXSocket.pair
        parent = Process.pid
        pid = fork_process do
          @forked = true
          at_exit { exit!(0) } if @adopted # what the handler's process registered is not this worker's to run
          @control.close
          ours.close
          worker = Worker.new(Control.new(theirs), index: index, threads: threads, settings: @settings,
                              app: @app, loader: @loader, hooks: @hooks, parent: parent)
          control = worker.run
          Preloader.new(control, app: worker.app, hooks: @hooks, mold: true).run_mold(@settings["front"].to_i) if control
        end
        theirs.close
        @lock.synchronize { @workers[pid] = true }
        @control.send(Frames::FORKED, Frames.fields(index, pid), fd: ours)
        ours.close
        reap(pid, index)
        @hooks&.run_hooks_aside(:after_worker_fork, index - 1)
        announce_writes
      end

      # A copy of the app for a doctor, who listens on the Unix socket `path`. It is no worker, and nothing that fails here is the front's concern.
      def fork_shadow(path)
        require_relative "shadow"
        mend_outputs
        before_fork
        Shadow.start(path, app: @app, root: @settings["root"], environment: @settings["environment"]) do
          @forked = true
          @control.close
        end
      rescue Errno::EAGAIN, Errno::ENOMEM => e
        Shadow.refuse(path, "the preloader could not fork: #{e.class}")
      rescue StandardError, ScriptError => e
        Shadow.refuse(path, "before the fork: #{e.class}: #{e.message}")
      end

      # Ruby flushes both before it forks, also when the app has closed them.
      def mend_outputs
        $stdout = IO.for_fd(1, "w", autoclose: false) if $stdout.respond_to?(:closed?) && $stdout.closed?
        $stderr = IO.for_fd(2, "w", autoclose: false) if $stderr.respond_to?(:closed?) && $stderr.closed?
      end

      # A machine short of memory or processes may have them again in a moment; while others serve, that can be waited for.
      def fork_process(&block)
        ForkedChild.deliberately { Process.fork(&block) }
      rescue Errno::EAGAIN, Errno::ENOMEM => e
        fail_with(e, "fork") if @lock.synchronize { @workers.empty? }
        warn "paceline: could not fork a worker: #{e.message}; trying again"
        tell_step("fork", "begin") # or the front takes this process for stuck
        sleep 1
        retry
      end

      # Whatever is raised before the first fork is the app's failure, as while it loads. Later a worker comes all the same.
      def prepare_fork(index)
        before_fork
        @hooks&.run_hooks(:before_worker_fork, index)
        @has_forked = true
      rescue Exception => e # a gem that is missing, or `exit`, is no StandardError
        fail_with(e, "fork") unless @has_forked
        ForkedChild.leave(e) if ForkedChild.here?
        warn "paceline: before the fork: #{e.class}: #{e.message}", *e.backtrace.first(10)
      end

      # The app's hooks once, before the first fork; its database connections each time.
      def before_fork
        unless @forked_before
          # Those that the hooks start are for this process.
          lost = @boot_threads&.started
          @hooks&.run_hooks(:before_fork)
          @boot_threads&.tell(lost)
        end
        @forked_before = true
        Database.disconnect
      end

      # Waits for this child alone, so that the app's own children stay the app's.
      def reap(pid, index)
        Thread.new do
          status = Process.wait2(pid)[1]
          tell_shutdown(index, pid, status)
          @lock.synchronize { @workers.delete(pid) }
          code = status.signaled? ? -status.termsig : status.exitstatus
          @control.send(Frames::EXITED, Frames.fields(pid, code))
        rescue Control::FrontGone
          nil # which the main thread sees too
        end
      end

      # A worker that has ended, as Puma's hook is given it.
      EndedWorker = Struct.new(:index, :pid, :process_status)
      private_constant :EndedWorker

      def tell_shutdown(index, pid, status)
        @hooks&.run_hooks_aside(:after_worker_shutdown, EndedWorker.new(index - 1, pid, status))
      end

      # All workers serve. One alone is the server, for the file's eyes, and runs the hook itself.
      def booted
        return if @booted || @settings["workers"] == "1"
        @booted = true
        Thread.new { @hooks&.run_hooks_aside(:after_booted) }
      end

      def stopped
        @hooks&.run_hooks_aside(:after_stopped) if @booted
        @booted = false
      end

      def kill_workers
        @lock.synchronize { @workers.keys }.each do |pid|
          Process.kill(:KILL, pid)
        rescue Errno::ESRCH
          nil
        end
        # It is loaded with the first one.
        Shadow.end_all if defined?(Shadow)
      end
    end
  end
end

if $PROGRAM_NAME == __FILE__
  Paceline::Server::Preloader.new(Paceline::Server::Control.from_env).run
end
