# What can be seen and changed of tasting notes in /admin. The words are AdminSection's.
class NoteAdmin < AdminSection
  manages "Note", label: :body
  columns :body, :author, :score, :beer, :created_at
  search :author, :body
  filters :score, :author
  fields :beer, :author, :score, :body

  cell(:score) { |note| stars(note.score) }
end
