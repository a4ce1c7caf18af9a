require "note_listeners"

# A note on a beer. A page with JavaScript gets one answer that changes four parts of it; without it the page is loaded again.
class NotesController < ApplicationController
  def create
    @beer = Beer.includes(:brewery, :notes).find(params[:beer_id])
    @note = @beer.notes.build(params.require(:note).permit(:author, :score, :body))
    if @note.save
      session[:author] = @note.author
      respond_to do |format|
        format.html { redirect_to @beer, notice: "Thank you, #{@note.author}. Your note is on the shelf." }
        format.turbo_stream { accept }
      end
    else
      respond_to do |format|
        format.html { render "beers/show", status: :unprocessable_entity }
        format.turbo_stream { refuse }
      end
    end
  end

  # New notes as server-sent events, from the one on that the page, or a connection before this one, had last.
  def listen
    beer = Beer.find(params[:beer_id])
    last = (request.headers["Last-Event-ID"] || params[:after]).to_i
    hijack = request.env["rack.hijack"] or return head(:not_implemented)

    io = hijack.call || request.env["rack.hijack_io"]
    io.write(NoteListeners::HEAD)
    io.close unless NoteListeners.add(io, beer.id, last)
    # The server takes no answer of ours any more.
    head :ok
  end

  private

  def accept
    render_update(NotePage.new(view_context, @note).update) do |page|
      page.insert_html :before, :note_form, partial: "notes/thanks", locals: { note: @note }
      page[:note_form].hide
    end
  end

  def refuse
    render_update(PageUpdate.new(view_context), status: :unprocessable_entity) do |page|
      page[:note_form].replace partial: "notes/form", locals: { beer: @beer, note: @note }
    end
  end
end
