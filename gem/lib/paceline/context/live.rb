# frozen_string_literal: true

module Paceline
  class Context
    # An action that streams (ActionController::Live) runs in a thread of its own: in its request's context, until it ends. Before that module.
    module LiveActions
      private

      def new_controller_thread
        scope = Slot.scope
        super { Slot.with(scope&.copy) { yield } }
      end
    end
    private_constant :LiveActions
  end
end
