# frozen_string_literal: true

# One shadow: the process in which the copy of the application lives, from the fork to the end. It answers its driver, and nobody else.
# It never runs the application's handlers of at_exit, and ends with its driver and with the process that forked it.
require_relative "../app_loader"
require_relative "../database"
require_relative "../parent_death"
require_relative "confinement"
require_relative "connection_pools"
require_relative "conversation"
require_relative "guards"
require_relative "quiet"
require_relative "replay"
require_relative "write_notes"

module Paceline
  module Server
    module Shadow
      class Copy
        # The Rack application; a patch may put another before it.
        attr_accessor :app

        # The application's folder, and its environment, as "production".
        attr_reader :root, :environment

        # What requests tried to write: WriteNotes.
        attr_reader :notes

        def initialize(app:, root:, environment:, tmpdir:)
          @app = app
          @root = File.expand_path(root.to_s)
          @environment = environment.to_s
          @tmpdir = tmpdir
          @on_replay = []
          @notes = WriteNotes.new(@root)
          @guards = Guards.new(self)
        end

        # The path of a folder of this shadow's own, where everything may be written. It goes when the shadow ends.
        attr_reader :tmpdir

        # The block is called before each replay: with what tells its request from others, and whether this is its first replay.
        def on_replay(&block)
          @on_replay << block
        end

        # A replay begins.
        def replay_begins(request, is_first)
          @on_replay.each { |block| block.call(request, is_first) }
        end

        # Notes that the request in hand tried to write. `kind`: sql, file, mail, job, store, outbound or cache; `what`: without values.
        def note_write(kind:, what:)
          @notes.add(kind, what)
        end

        # Notes that the request in hand has started a program. `name`: without its path.
        def note_program(name)
          @notes.add_program(name)
        end

        # What this thread does in the block is the shadow's own work: it may write and open databases.
        def unguarded(&block)
          Guards.unguarded(&block)
        end

        # The whole life of the process. `parent`: the pid of the one that forked it.
        def run(path, parent)
          ::Process.setproctitle("paceline shadow")
          ParentDeath.follow
          exit!(1) unless ::Process.ppid == parent
          @conversation = Conversation.new(UNIXSocket.new(path))
          ForkedChild.guard(self)
          set_traps
          converse
          clean_up
          exit!(0)
        rescue Exception => e # nothing may unwind into the frames of the process that forked
          ForkedChild.leave(e) if ForkedChild.here?
          @conversation&.write("error" => "#{e.class}: #{e.message} (#{e.backtrace&.first})")
          exit!(1)
        end

        # In a child that the application has forked.
        def let_go
          @conversation.close
        end

        private

        # Ctrl-C is the driver's to hear.
        def set_traps
          %w[INT QUIT HUP USR1 USR2 TTIN TTOU].each { |name| trap(name) {} }
          trap("CHLD", "DEFAULT")
          trap("TERM") { exit!(0) }
        end

        def converse
          Quiet.become
          Database.disconnect
          confine
          hello = greeting
          @guards.install
          @replay = Replay.new(self, @guards)
          @conversation.listen { clean_up }
          @conversation.write(hello)
          while (command = @conversation.read)
            break if command["do"] == "quit"
            @conversation.write(answer(command))
          end
        end

        # Requests may still be at work there; the process that forked this one takes away what is left.
        def clean_up
          Confinement.outside { unguarded { Shadow.remove(@tmpdir) } }
        end

        # Temporary files are the shadow's own, and go with it.
        def confine
          Dir.mkdir(@tmpdir, 0o700)
          ENV["TMPDIR"] = @tmpdir
        rescue SystemCallError
          nil # there is no place for any, and none is written
        ensure
          Confinement.enter([@tmpdir, cache_folder])
        end

        # Where it is not there and can't be made, nothing is written.
        def cache_folder
          File.join(@root, "tmp/cache").tap { |folder| Dir.mkdir(folder) if File.directory?(File.dirname(folder)) }
        rescue SystemCallError
          File.join(@root, "tmp/cache")
        end

        # Before anything is guarded, or the facts would be the shadow's.
        def greeting
          require_relative "facts"
          versions = AppLoader.new({ "root" => @root }).versions
          versions.merge("pid" => ::Process.pid, "unconfined" => Confinement.missing, "facts" => Facts.collect(root: @root, environment: @environment, app: @app))
        ensure
          Database.disconnect
        end

        def answer(command)
          case command["do"]
          when "replay" then @replay.call(command)
          when "patch" then patch(command)
          when "load" then begin_load(command)
          when "background" then step_back
          when "recordings"
            @guards.outbound.load(command.fetch("all"))
            { "ok" => true }
          else { "error" => "unknown command #{command["do"].inspect}" }
          end
        rescue StandardError, ScriptError => e
          return { "error" => "#{e.class}: #{e.message} (#{e.backtrace&.first})" } unless command["do"] == "replay"

          { "id" => command["id"], "status" => 500, "error" => { "class" => e.class.name, "message" => "#{e.message} (#{e.backtrace&.first})", "at" => "" } }
        end

        def step_back
          require_relative "../background"
          unguarded { Background.become }
          { "ok" => true }
        end

        def begin_load(command)
          require_relative "load"
          return { "error" => "it answers on channels already" } if @load

          @load = Load.new(self, @guards, command)
          { "ok" => true }
        end

        def patch(command)
          require_relative "patches"
          return { "error" => "a patch must come before the first replay" } if @replay.begun?
          unguarded { Patches.apply(command["name"].to_s, command.except("do", "name"), self) }
          Database.disconnect # what was opened meanwhile is not guarded
          { "ok" => true }
        rescue Patches::Inapplicable => e
          { "error" => e.message }
        end
      end
    end
  end
end
