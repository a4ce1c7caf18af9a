class NotesController < ApplicationController
  def create
    @beer = Beer.includes(:brewery, :notes).find(params[:beer_id])
    @note = @beer.notes.build(params.require(:note).permit(:author, :score, :body))
    if @note.save
      session[:author] = @note.author
      redirect_to @beer, notice: "Thank you, #{@note.author}. Your note is on the shelf."
    else
      render "beers/show", status: :unprocessable_entity
    end
  end
end
