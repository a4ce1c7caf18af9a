module Services
  def self.answers(urls)
    Paceline::HTTP.all { |calls| urls.each { |url| calls.get(url) } }.map(&:json)
  end
end
