# frozen_string_literal: true

module Paceline
  class Context
    # What is known of one request, job or `run`, for as long as it lasts. Afterwards it knows nothing, though somebody may still have it. It never shows
    # by `inspect` what it knows.
    class Scope
      def initialize(source, values: nil, ended: false)
        @source = source
        @values = values
        @ended = ended
        @calling = true
        @thread = Thread.current
      end

      # Puts it in place, for a request. What a request before has left in this thread ends; one that is calling the application goes on after it.
      def start
        outer = Slot.held
        if outer
          outer = nil unless outer.here?
          outer = outer.finish until outer.nil? || outer.calling?
        end
        @outer = outer
        Slot.hold(self)
      end

      # Whether it has not ended, and this is its thread.
      def here?
        !@ended && @thread.equal?(Thread.current)
      end

      # Whether the application is being called in it, so that what begins now is within.
      def calling?
        @calling
      end

      # The application has returned; what is left is its body.
      def returned
        @calling = false
      end

      # Code of the application begins again. False: it is not in place here.
      def resume
        @calling = true if Slot.held.equal?(self) && here?
      end

      # Runs the block as part of the application, in whatever thread.
      def within
        return yield if @ended
        return Slot.with(copy) { yield } unless resume

        begin
          yield
        ensure
          returned
        end
      end

      # The user; nil: nobody, or not known yet. What the resolver raises is raised.
      def user
        return @user if @named || !@user.nil?
        source = @source
        return if source.nil? || @resolving

        @resolving = true
        begin
          @user = source.user
        ensure
          @resolving = false
        end
      end

      # Sets the user for the rest of the scope; nil: nobody.
      def user=(user)
        @named = true
        @user = user
      end

      # The user's id or name, for logs and the like; nil: nobody. It raises nothing, and asks the application's resolver, which may be dear, only once until the
      # user is known.
      def user_label
        found = @user
        return @source.label if found.nil? && !@named && @source&.label
        if found.nil? && !@named && !@resolving && !(@labelled && Context.resolver)
          @labelled = true
          found = begin
            user
          rescue StandardError
            nil
          end
        end
        Scope.label(found)
      end

      # The user may be known from here on, as when the controller begins.
      def look_again
        @labelled = false
      end

      # How a user is called in a log: by its `id`, else by its `to_s`.
      def self.label(user)
        return if user.nil?
        return user.name if user.is_a?(Identity)

        (user.respond_to?(:id) ? user.id : user)&.to_s
      end

      def identity
        @source&.identity
      end

      def request_id
        @source&.request_id
      end

      def trace
        @source&.trace
      end

      def [](name)
        @values && @values[name.to_sym]
      end

      def []=(name, value)
        (@values ||= {})[name.to_sym] = value
      end

      # All values, as a Hash of its own.
      def values
        @values ? @values.dup : {}
      end

      # A copy for this thread, with values of its own; it ends by itself.
      def copy
        source = @source
        source ? Scope.new(source, values: @values&.dup).take_over(@user, @named) : NONE
      end

      # A copy without the request that it comes from, for what may last longer. The user is found now.
      def snapshot
        found = user
        Scope.new(FixedSource.new(found, identity, request_id, trace, user_label), values: @values&.dup).take_over(found, @named)
      end

      # It is over. Returns the scope that this one was within, which is in place again, or nil. For the thread that it was in; harmless twice.
      def finish
        # What interrupts the thread waits until it is over.
        Thread.handle_interrupt(UNINTERRUPTED) { finish_at_once }
      end

      # Rack calls it after the response (rack.response_finished, rack.after_reply).
      def call(*)
        finish
      end

      def inspect
        "#<#{self.class}#{" (ended)" if @ended}>"
      end

      private

      def finish_at_once
        return if @ended

        @ended = true
        @source = @user = @named = @values = nil
        return unless @thread.equal?(Thread.current)

        outer, @outer = @outer, nil
        outer = nil unless outer&.here?
        Slot.hold(outer) if Slot.held.equal?(self)
        outer
      end

      protected

      def take_over(user, named)
        @user = user
        @named = named
        self
      end

      # Where a block is to have no context though there is one around it.
      NONE = new(nil, ended: true)
    end
    private_constant :Scope
  end
end
