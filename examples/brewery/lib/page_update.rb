# Several parts of a page changed by one answer, in the words of Rails 2's `render :update`:
#
#   page.insert_html :top, :notes, partial: "notes/note", locals: { note: note }
#   page[:note_count].replace_html "3"
#   page[:note_form].hide
#
# What comes out are Turbo Streams, as Turbo reads them (hide and show are actions of our own, in public/javascripts/streams.js). Part of this demo only.
class PageUpdate
  TYPE = "text/vnd.turbo-stream.html".freeze
  PLACES = { top: "prepend", bottom: "append", before: "before", after: "after" }.freeze

  # One element of the page, by its id.
  Element = Struct.new(:page, :id) do
    def replace_html(content) = page.stream("update", id, content)
    def replace(content) = page.stream("replace", id, content)
    def insert_html(place, content) = page.insert_html(place, id, content)
    def remove = page.stream("remove", id)
    def hide = page.stream("hide", id)
    def show = page.stream("show", id)
  end

  # `renderer` renders partials: a view, or a controller's renderer where there is no request.
  def initialize(renderer)
    @renderer = renderer
    @streams = []
  end

  def [](id)
    Element.new(self, id)
  end

  # `place`: :top or :bottom within the element, :before or :after it. `content`: text, which is escaped, or what `render` takes.
  def insert_html(place, id, content)
    stream(PLACES.fetch(place), id, content)
  end

  def stream(action, id, content = nil)
    template = "<template>#{html(content)}</template>" if content
    @streams << %(<turbo-stream action="#{action}" target="#{ERB::Util.h(id)}">#{template}</turbo-stream>)
    self
  end

  def to_s
    @streams.join("\n")
  end

  # As one message of server-sent events.
  def to_event(id)
    "id: #{id}\n#{to_s.lines.map { |line| "data: #{line.chomp}\n" }.join}\n"
  end

  private

  def html(content)
    content.is_a?(Hash) ? @renderer.render(formats: [:html], **content) : ERB::Util.h(content)
  end
end
