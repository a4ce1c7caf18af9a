# Makes a story's measurement. A page with JavaScript gets its progress as lines of JSON, and at last the figures as HTML; any other is sent back to the stories.
# One at a time: two measurements at once would both be wrong, and nobody shall keep this machine busy with more than one.
class StoryRunsController < ApplicationController
  include ActionController::Live

  LINES = "application/x-ndjson".freeze

  before_action :find_story

  def create
    lines = request.headers["Accept"].to_s.include?(LINES)
    refuse unless StoryResult.alone { lines ? stream : measure }
  rescue ActionController::Live::ClientDisconnected
    logger.info "The reader has gone"
  ensure
    response.stream.close
  end

  private

  def find_story
    @story = Story.find(params[:story_id])
    raise ActionController::RoutingError, "no such story" unless @story&.live?
  end

  def refuse
    render plain: "Another measurement is under way: try again in a few seconds.\n", status: :conflict
  end

  def measure
    @story.measure
    redirect_to stories_path(anchor: @story.name)
  rescue StandardError => e
    redirect_to stories_path, alert: "#{@story.title}: #{e.message}"
  end

  def stream
    response.headers["Content-Type"] = LINES
    response.headers["Cache-Control"] = "no-store"
    # Each line as soon as it is written, behind a proxy too.
    response.headers["X-Accel-Buffering"] = "no"
    # Without a validator Rack::ETag would collect the whole stream to digest it.
    response.headers["Last-Modified"] = Time.now.httpdate
    result = @story.measure { |done, step| write(done: done.round(3), step: step) }
    write(done: 1, html: render_to_string(partial: @story.partial, formats: [:html], locals: { result: result }))
  rescue ActionController::Live::ClientDisconnected
    raise
  rescue StandardError => e
    logger.error(e.full_message)
    write(error: e.message)
  end

  def write(line)
    response.stream.write("#{JSON.generate(line)}\n")
  end
end
