# How the admin section shows values, and asks for them.
module AdminHelper
  # A column of a record, by the section's own block if it has one. In a list a long text is cut off.
  def admin_cell(section, record, attribute, whole: false)
    cell = section.cells[attribute.name]
    return instance_exec(record, &cell) if cell

    value = record.public_send(attribute.name)
    return admin_link(value) if value.is_a?(ActiveRecord::Base)

    return value.to_formatted_s(:db) if value.is_a?(Time)

    whole ? value.to_s : value.to_s.truncate(80)
  end

  # To a record's page, if there is a section for it.
  def admin_link(record)
    section = AdminSection.for(record.class)
    section ? link_to(section.call(record), admin_record_path(section.name_in_path, record)) : record.to_s
  end

  def admin_field(form, section, attribute)
    case attribute.kind
    when :belongs_to then form.select(attribute.column, section.choices(attribute), { include_blank: true })
    when :text then form.text_area(attribute.name, rows: 4)
    when :integer then form.number_field(attribute.name)
    when :decimal then form.number_field(attribute.name, step: "any")
    when :boolean then form.check_box(attribute.name)
    else form.text_field(attribute.name)
    end
  end
end
