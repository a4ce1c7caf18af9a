# frozen_string_literal: true

require_relative "changes"

module Paceline
  module XML
    # Tags that have been used: the native part makes methods of them here.
    module Tags
    end
    private_constant :Tags

    # Builder::XmlMarkup's double. What Markup does in Ruby is done natively here if the native part was built, except where somebody has
    # changed the hooks that it would go past.
    class Builder < Markup
      include Tags

      class << self
        # For the native part: the bits of Changes.native_mode_of, remembered until something is defined.
        def native_mode
          mode, epoch = @native_mode
          return mode if epoch == Changes.epoch

          mode = Changes.native_mode_of(self)
          @native_mode = [mode, Changes.epoch].freeze if ::Ractor.current == ::Ractor.main
          mode
        end

        # For the native part: whether a method of this name on one builder alone leaves that builder to Ruby.
        def native_hook?(name)
          Changes.hook?(name)
        end
      end
    end

    if Native.respond_to?(:take_xml)
      Native.take_xml(self)
      Changes.watch
    end
  end
end
