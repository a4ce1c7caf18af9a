# An admin section by declaration: a class says which columns, filters, relations and actions there are for a model.
#
#   class BeerAdmin < AdminSection
#     manages "Beer", label: :name
#     columns :name, :style, :brewery, :price
#     search :name, :style
#     filters :style, :brewery
#     fields :brewery, :name, :style, :price, :about
#     relation :notes
#     cell(:price) { |beer| tag.b(number_to_currency(beer.price)) }
#     action("10 % cheaper") { |beer| beer.update(price: beer.price * 0.9) }
#   end
#
# What is not declared is neither shown, nor can it be sorted by, filtered by or written. Part of this demo only; the pages are Admin::RecordsController's.
class AdminSection
  PAGE = 25
  Action = Struct.new(:name, :label, :work)
  # `kind`: :string, :text, :integer, :decimal, :datetime ... or :belongs_to.
  Attribute = Struct.new(:name, :kind, :column, :target)

  class << self
    # In the order of the menu. A class that Rails has loaded again is another one.
    def all
      Rails.root.join("app/admin").glob("*_admin.rb").sort.map { |path| path.basename(".rb").to_s.camelize.constantize }
    end

    def find(name)
      all.find { |section| section.name_in_path == name }
    end

    # The section of a record's class, or nil.
    def for(model)
      all.find { |section| section.model == model }
    end

    attr_reader :label

    def model
      @model.constantize
    end

    def name_in_path
      @model.tableize
    end

    def title
      @model.pluralize.titleize
    end

    def declared
      @declared ||= Hash.new { |hash, key| hash[key] = [] }
    end

    def cells
      @cells ||= {}
    end

    # What a record is called.
    def call(record)
      record.public_send(label).to_s.truncate(60)
    end

    def attribute(name)
      reflection = model.reflect_on_association(name)
      return Attribute.new(name, :belongs_to, reflection.foreign_key, self.for(reflection.klass)) if reflection&.belongs_to?

      Attribute.new(name, model.type_for_attribute(name.to_s).type, name.to_s)
    end

    def attributes(what)
      declared[what].map { |name| attribute(name) }
    end

    def relations
      declared[:relations].map { |name| model.reflect_on_association(name) }
    end

    def actions
      declared[:actions]
    end

    # The names of the parameters that a form may set.
    def writable
      attributes(:fields).map(&:column)
    end

    # The choices of a filter, or of a field that names another record: [[label, value], ...].
    def choices(attribute)
      return attribute.target.model.order(attribute.target.label).map { |record| [attribute.target.call(record), record.id] } if attribute.target

      model.where.not(attribute.column => nil).distinct.order(attribute.column).pluck(attribute.column)
    end

    private

    # `label`: the column that says what a record is called.
    def manages(model, label:)
      @model = model
      @label = label
    end

    %i[columns filters fields search].each do |what|
      define_method(what) { |*names| declared[what].concat(names) }
    end

    def relation(name)
      declared[:relations] << name
    end

    # Shows a column as the block says, which runs in the view with the record.
    def cell(name, &block)
      cells[name] = block
    end

    # A button on each record's page. False from the block: the record's errors are shown.
    def action(label, &work)
      declared[:actions] << Action.new(label.parameterize, label, work)
    end
  end
end
