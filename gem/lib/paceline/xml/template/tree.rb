# frozen_string_literal: true

module Paceline
  module XML
    module Template
      # What a reader tells of a template: as much of its syntax as the compiler has to know. Positions are byte offsets into the source.
      #
      # A Node's `type`, and what its `name` and `detail` are:
      #
      #   :list      statements, one after the other
      #   :branch    statements in it are the value of it: if, unless, case, begin; name: :continued for the parts of one (else, when,
      #              rescue ...), which are branches in it
      #   :loop      while, until, for: runs its statements again and again in the scope around it
      #   :block     a scope within the one around it; detail: Block
      #   :call      a call on a local variable, with a dot and nothing between; name: the variable; detail: Call
      #   :word      a call of any other kind; name: its method; detail: :bare without a receiver
      #   :read      a local variable; name
      #   :assign    a local variable gets a value; name
      #   :jump      next, break, redo, retry, return, yield, super; name
      #   :opaque    patterns and named captures, which assign without saying so
      #   :other     anything else
      Node = Struct.new(:type, :name, :children, :detail)

      # `arguments` is nil where they are not all plain (splats, a block passed on, heredocs ...). `finish` is the end of the arguments;
      # a block comes behind that.
      Call = Struct.new(:start, :name, :selector_finish, :arguments, :finish, :block)

      # From `key_start` to `start` stands the key of an attribute; nil for other arguments.
      Argument = Struct.new(:key_start, :start, :finish)

      # `body_start` is behind the parameters if these are none or one plain name (`plain`), `body_finish` where `end` or `}` begins.
      # `rescues`: the block itself has a rescue or ensure.
      Block = Struct.new(:start, :body_start, :body_finish, :finish, :parameters, :plain, :rescues)
    end
  end
end
