# A page that is the same for everybody, and changes at a time that is known.
class ReleasesController < ApplicationController
  def show
    @release = Release.today
    Paceline.changes_at(@release.changes_at) if defined?(Paceline)
    expires_in 1.day, public: true
  end
end
