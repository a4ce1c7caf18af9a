# What a new note changes on its beer's page, for its author and for all others who have it open.
class NotePage
  def initialize(renderer, note)
    @renderer = renderer
    @note = note
  end

  def update
    beer = Beer.includes(:notes).find(@note.beer_id)
    PageUpdate.new(@renderer).tap do |page|
      page.insert_html :top, :notes, partial: "notes/note", locals: { note: @note }
      page[:note_count].replace_html beer.notes.size.to_s
      page[:note_average].replace_html beer.score.to_s
      page[:no_notes].hide
    end
  end
end
