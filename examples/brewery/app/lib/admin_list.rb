# One page of a section's records: searched, filtered and sorted as the parameters say, as far as the section allows it.
class AdminList
  attr_reader :section, :page, :words, :order

  def initialize(section, params)
    @section = section
    @words = params[:q].to_s.strip
    @wanted = params.fetch(:filter, {}).to_unsafe_h.select { |_, value| value.is_a?(String) && value.present? } if params[:filter].respond_to?(:to_unsafe_h)
    @wanted ||= {}
    sort = params[:sort].to_s
    @order = section.attributes(:columns).find { |attribute| attribute.name.to_s == sort.delete_prefix("-") }
    @descending = sort.start_with?("-")
    @page = params[:page].to_i.clamp(1, pages)
  end

  def records
    @records ||= sorted.limit(AdminSection::PAGE).offset((page - 1) * AdminSection::PAGE).to_a
  end

  def count
    @count ||= found.count
  end

  def pages
    [(count / AdminSection::PAGE.to_f).ceil, 1].max
  end

  def descending?
    @descending
  end

  # What a filter is set to.
  def filter(attribute)
    @wanted[attribute.name.to_s]
  end

  # The parameters of this list with others.
  def with(**other)
    { q: words.presence, filter: @wanted.presence, sort: (order && "#{"-" if descending?}#{order.name}") }.merge(other).compact
  end

  # The parameters for a click on the head of a column: the other way round if it is that one already.
  def sorted_by(attribute)
    with(sort: "#{"-" if order&.name == attribute.name && !descending?}#{attribute.name}")
  end

  private

  def found
    records = section.model.all
    section.attributes(:filters).each { |attribute| records = records.where(attribute.column => filter(attribute)) if filter(attribute) }
    words.empty? ? records : records.where(matching)
  end

  # Any of the searched columns has the words in it.
  def matching
    pattern = "%#{section.model.sanitize_sql_like(words)}%"
    section.declared[:search].map { |column| section.model.arel_table[column].matches(pattern, "\\") }.reduce(:or)
  end

  def sorted
    to_load = section.attributes(:columns).select { |attribute| attribute.kind == :belongs_to }
    records = found.includes(to_load.map(&:name))
    return records.order(:id) unless order

    direction = descending? ? :desc : :asc
    return records.order(order.column => direction, :id => :asc) unless order.target

    # By what the other record is called, not by its number.
    other = order.target.model.arel_table[order.target.label]
    records.joins(order.name).order(descending? ? other.desc : other.asc).order(:id)
  end
end
