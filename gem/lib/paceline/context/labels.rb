# frozen_string_literal: true

module Paceline
  class Context
    # What logs and SQL comments call a request, by the names that the application has asked for. Nothing is said that is not asked for.
    module Labels
      # The names, if it is `true`.
      USUAL = %i[user request_id].freeze

      class << self
        # `asked`: true, a name or an Array of names; false, nil: none. :user, :request_id, :traceparent, or the name of a value of Paceline.current.
        def names(asked)
          asked == true ? USUAL : Array(asked || nil).map(&:to_sym)
        end

        # The label under this name, a String; nil: there is none.
        def [](name)
          scope = Slot.scope or return
          case name
          when :user then scope.user_label
          when :request_id then scope.request_id
          when :traceparent then scope.trace&.first
          else Scope.label(scope[name])
          end
        end
      end
    end
    private_constant :Labels
  end
end
