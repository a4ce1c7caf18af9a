# What brewers abbreviate, in forms, lists and messages.
ActiveSupport::Inflector.inflections(:en) do |inflect|
  %w[ABV IBU EBC].each { |short| inflect.acronym short }
end
