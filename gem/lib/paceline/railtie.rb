# frozen_string_literal: true

# What Rails gets of the gem: the view helper esi_include. Changes nothing else.
module Paceline
  class Railtie < ::Rails::Railtie
    initializer "paceline.esi" do
      ActiveSupport.on_load(:action_view) { include Paceline::ESI::Helper }
    end
  end
end
