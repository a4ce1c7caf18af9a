# frozen_string_literal: true

# Names the threads that the application starts while it is loaded: no worker has them, since a fork takes only the thread
# that forks. Ends none, and says nothing of those that start again by themselves.
module Paceline
  module Server
    class BootThreads
      # Libraries that notice a fork and begin anew, or work for the process that loads alone.
      SELF_STARTING = %r{/(?:concurrent-ruby|listen|rb-inotify|bootsnap|timeout)-?[\d.]*/|/timeout\.rb:}
      STARTER = :paceline_started_by
      private_constant :SELF_STARTING, :STARTER

      # Notes for each thread where the application has started it, while there is somebody to tell.
      module Noting
        class << self
          attr_accessor :root
        end

        MAKERS = %i[new start fork].freeze
        MAKERS.each do |name|
          define_method(name) do |*arguments, **named, &block|
            thread = super(*arguments, **named, &block)
            root = Noting.root
            place = root && caller_locations.find { |frame| frame.absolute_path.to_s.start_with?(root) }
            thread.thread_variable_set(STARTER, "#{place.absolute_path.delete_prefix(root)}:#{place.lineno}") if place && thread.is_a?(Thread)
            thread
          end
        end
      end

      # `before`: threads that are none of the application's.
      def initialize(root, before: Thread.list)
        @root = File.join(root.to_s, "")
        @before = before
      end

      # Runs the block, which loads the application: once in a process.
      def watching
        Noting.root = @root
        Thread.singleton_class.prepend(Noting)
        yield
      ensure
        Noting.root = nil
        Noting::MAKERS.each { |name| Noting.remove_method(name) } # threads cost no more from now on
      end

      # Says which of these threads the workers will not have.
      def tell(threads)
        threads.select(&:alive?).each { |thread| warn "paceline: #{line(thread)}" }
      end

      def started
        (Thread.list - @before).select(&:alive?).reject do |thread|
          thread == Thread.current || thread.is_a?(Process::Waiter) || thread.thread_variable_get(:fork_safe) || SELF_STARTING.match?(thread.inspect)
        end
      end

      private

      def line(thread)
        runs = thread.inspect[/(\S+:\d+) [\w ()]+>\z/, 1].to_s.delete_prefix(@root)
        place = thread.thread_variable_get(STARTER) || runs
        name = thread.name ? " #{thread.name.inspect}" : ""
        runs = runs == place || runs.empty? ? "" : " (it runs #{runs})"
        "the thread#{name} that #{place} started while the application was loaded#{runs} is not in the workers; start it in " \
          "before_worker_boot of config/puma.rb, or set its thread variable :fork_safe if it starts again by itself"
      end
    end
  end
end
