# frozen_string_literal: true

# Subclasses of Builder::XmlMarkup that the application has defined before the change: those in a file of their own are loaded again, as they would be
# after it. Others (in a file with more, or without a name) stay what they are, and so gain nothing.
module Paceline
  module Server
    module Shadow
      module Patches
        module XmlSubclasses
          class << self
            # Those that have a file of their own, which is called what they are called.
            def of_builder
              return [] unless defined?(::Builder::XmlMarkup)

              ::Builder::XmlMarkup.subclasses.select { |one| one.name && file(one) }
            end

            # Builder::XmlMarkup is another by now.
            def load_again(subclass)
              path, within, name = file(subclass), *place(subclass)
              within.send(:remove_const, name)
              load(path)
            rescue StandardError, ScriptError
              # It stays what it was.
              within&.send(:remove_const, name) if within&.const_defined?(name, false)
            ensure
              within&.const_set(name, subclass) unless within&.const_defined?(name, false)
            end

            private

            # The module that it is in, and its name there.
            def place(subclass)
              *names, name = subclass.name.split("::")
              [names.empty? ? Object : Object.const_get(names.join("::")), name]
            end

            # As lib/redmine/views/builders/xml.rb; nil: it is in no such file.
            def file(subclass)
              within, name = place(subclass)
              path, = within.const_source_location(name, false)
              path if path && path.end_with?("/#{underscored(subclass.name)}.rb") && File.file?(path)
            rescue NameError
              nil
            end

            def underscored(name)
              name.gsub("::", "/").gsub(/([A-Z]+)([A-Z][a-z])/, '\1_\2').gsub(/([a-z\d])([A-Z])/, '\1_\2').downcase
            end
          end
        end
      end
    end
  end
end
