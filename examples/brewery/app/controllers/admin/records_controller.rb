# The pages of all sections in app/admin: a list, a record with its relations and its history, a form, and actions.
class Admin::RecordsController < ApplicationController
  include SignedIn

  HISTORY = 20

  before_action :sign_in_at_home
  before_action :find_section
  before_action(except: [:index, :new, :create]) { @record = @section.model.find(params[:id]) }

  def index
    @list = AdminList.new(@section, params)
  end

  def show
    @history = defined?(Paceline::Audit) ? Paceline::Audit::Entry.of(@record).last(HISTORY).reverse : []
  end

  # Attributes of the form may be in the address: a new note of this beer.
  def new
    @record = @section.model.new(given)
  end

  def edit
  end

  def create
    @record = @section.model.new(given)
    save(:new)
  end

  def update
    @record.assign_attributes(given)
    save(:edit)
  end

  def destroy
    @record.destroy!
    redirect_to admin_records_path(@section.name_in_path), notice: "#{@section.call(@record)} is gone."
  end

  # What the section declares as an action, by its name.
  def perform
    action = @section.actions.find { |candidate| candidate.name == params[:perform] } or raise ActionController::RoutingError, "no such action"
    if action.work.call(@record)
      redirect_to admin_record_path(@section.name_in_path, @record), notice: "#{@section.call(@record)}: #{action.label}."
    else
      redirect_to admin_record_path(@section.name_in_path, @record), alert: @record.errors.full_messages.to_sentence
    end
  end

  private

  def find_section
    name = params[:section] or return redirect_to(admin_records_path(AdminSection.all.first.name_in_path))
    @section = AdminSection.find(name) or raise ActionController::RoutingError, "no such section"
  end

  def given
    params[:record].respond_to?(:permit) ? params[:record].permit(*@section.writable) : {}
  end

  def save(form)
    if @record.save
      redirect_to admin_record_path(@section.name_in_path, @record), notice: "#{@section.call(@record)} is saved."
    else
      render form, status: :unprocessable_entity
    end
  end
end
