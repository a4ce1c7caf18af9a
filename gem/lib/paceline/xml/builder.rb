# frozen_string_literal: true

module Paceline
  module XML
    # Builder::XmlMarkup's double. What Markup does in Ruby is done natively here, if the native part was built.
    class Builder < Markup
    end
  end
end
