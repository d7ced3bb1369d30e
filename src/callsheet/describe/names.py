"""The tools of well-known agents, by exact name.

Names are compared without case and separators, so `ReadFile`, `read_file` and `readfile` are one. Each
row: what the tool does, its shape, its names. The agents that they come from: Claude Code, Codex, Gemini
CLI, opencode, Kimi, Vibe, Qwen Code, Goose, Cline (and Roo), fast-agent, Zed, Copilot, Cursor, Amazon Q,
OpenHands, and callsheet's own tools.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from callsheet.describe import files, finding, patches, running, telling
from callsheet.describe.drafts import Shape
from callsheet.describe.naming import squash
from callsheet.report.fields import ToolKind


class Entry(NamedTuple):
    """What a tool with a well-known name is."""

    kind: ToolKind
    shape: Shape


_K = ToolKind

_ROWS: tuple[tuple[ToolKind, Shape, str], ...] = (
    (
        _K.READ,
        files.read,
        "read read_file read_text_file read_many_files read_files ReadMediaFile "
        "read_media_file view_file view open_file NotebookRead cat read_notebook file_read "
        "get_file_contents get_file_text_by_path read_lints view_code_item readFileTool "
        "diagnostics ",
    ),
    (_K.READ, files.reader, "fs_read"),
    (
        _K.READ,
        files.view,
        "view_image read_image image_processor developer__image_processor display_image",
    ),
    (
        _K.READ,
        files.listing,
        "list ls LS list_dir list_directory list_files list_folder ListFiles ReadFolder "
        "tree dir directory_tree developer__tree",
    ),
    (
        _K.READ,
        finding.resource,
        "access_mcp_resource get_internal_docs ReadMcpResourceTool ReadMcpResource read_mcp_resource "
        "platform__read_resource extensionmanager__read_resource read_resource",
    ),
    (
        _K.READ,
        finding.resources,
        "ListMcpResourcesTool ListMcpResources list_mcp_resources list_resources "
        "list_mcp_resource_templates platform__list_resources "
        "extensionmanager__list_resources",
    ),
    (
        _K.READ,
        running.output,
        "BashOutput bash_output TaskOutput task_output read_background_output "
        "AgentOutputTool read_bash command_status get_command_output get_terminal_output "
        "read_terminal",
    ),
    (_K.READ, running.processes, "list_background_processes list_bash list_processes"),
    (
        _K.READ,
        telling.screenshot,
        "screenshot screen_capture take_screenshot developer__screen_capture",
    ),
    (
        _K.EDIT,
        files.write,
        "write write_file write_text_file write_to_file create_file create create_text_file "
        "file_write save_file new_file developer__write new_rule",
    ),
    (
        _K.EDIT,
        files.edit,
        "edit edit_file MultiEdit multi_edit replace replace_in_file str_replace "
        "StrReplaceFile str_replace_file search_replace search_and_replace insert_content "
        "insert replace_file_content multi_replace_file_content NotebookEdit notebook_edit "
        "edit_notebook file_edit edit_files string_replace reapply developer__edit "
        "edit_existing_file single_find_and_replace restore_file_from_disk smart_edit",
    ),
    (
        _K.EDIT,
        patches.patch,
        "apply_patch patch applyPatch PatchFile apply_diff patch_file apply_edits "
        "apply_patch_to_file",
    ),
    (
        _K.EDIT,
        files.editor,
        "str_replace_editor str_replace_based_edit_tool text_editor developer__text_editor "
        "fs_write memory file_editor",
    ),
    (
        _K.EDIT,
        files.make_directory,
        "create_directory make_directory mkdir create_dir create_folder",
    ),
    (_K.EDIT, files.copy, "copy copy_file copy_path cp"),
    (
        _K.DELETE,
        files.delete,
        "delete delete_file delete_path remove remove_file remove_files delete_files rm "
        "delete_directory unlink",
    ),
    (_K.MOVE, files.move, "move move_file move_path rename rename_file mv"),
    (
        _K.SEARCH,
        finding.search,
        "grep grep_search search search_files search_file_content grep_files SearchText "
        "codebase_search search_codebase code_search codesearch rg ripgrep search_code "
        "semantic_search ast_grep search_symbols search_in_files search_for_pattern "
        "find_symbol",
    ),
    (
        _K.SEARCH,
        finding.find,
        "glob find_path find_files file_search find_by_name FindFiles glob_search "
        "search_file find_file glob_files",
    ),
    (
        _K.SEARCH,
        files.definitions,
        "list_code_definition_names get_symbols_overview get_file_outline",
    ),
    (_K.SEARCH, finding.language_server, "lsp"),
    (
        _K.SEARCH,
        finding.ask_index,
        "ToolSearch tool_search chatrecall chatrecall__chatrecall cli_help "
        "search_available_extensions "
        "platform__search_available_extensions knowledge "
        "extensionmanager__search_available_extensions",
    ),
    (
        _K.SEARCH,
        finding.web_search,
        "web_search WebSearch google_web_search SearchWeb search_web websearch GoogleSearch "
        "internet_search brave_web_search web_search_exa",
    ),
    (
        _K.FETCH,
        finding.fetch,
        "fetch web_fetch WebFetch FetchURL fetch_url read_url_content read_url http_request "
        "browser_action browse computercontroller__web_scrape web_scrape download open_url "
        "fetch_webpage",
    ),
    (
        _K.EXECUTE,
        running.shell,
        "bash shell run_shell_command exec_command local_shell container.exec shell_command "
        "execute_command execute exec run_command run_terminal_cmd run_in_terminal terminal "
        "execute_bash unified_exec developer__shell run_terminal_command command run_bash "
        "bash_command experimental_bash git_bash "
        "execute_shell_command run_shell sh zsh BashTool",
    ),
    (_K.EXECUTE, running.foreign_shell, "powershell pwsh cmd windows_shell run_powershell"),
    (
        _K.EXECUTE,
        running.code,
        "python execute_code code_execution run_code execute_ipython_cell js_repl ipython "
        "run_python computercontroller__automation_script automation_script "
        "code_execution__execute_code code_interpreter executeCode mcp__ide__executeCode "
        "Workflow",
    ),
    (
        _K.EXECUTE,
        running.send,
        "write_stdin send_input write_bash send_to_terminal send_terminal_input",
    ),
    (
        _K.EXECUTE,
        running.stop,
        "KillShell KillBash kill_shell TaskStop task_stop stop_bash kill_process "
        "kill_terminal close_agent kill_background_process",
    ),
    (_K.EXECUTE, running.process, "process manage_process"),
    (_K.THINK, telling.think, "think thinking sequentialthinking sequential_thinking"),
    (
        _K.THINK,
        telling.todos,
        "TodoWrite todo_write write_todos todowrite SetTodoList set_todo_list todo "
        "update_todo_list focus_chain todo__todo_write manage_todo_list todo_list",
    ),
    (_K.THINK, telling.read_todos, "TodoRead todo_read todo__todo_read"),
    (_K.THINK, telling.plan, "update_plan set_plan create_plan"),
    (
        _K.THINK,
        telling.agent,
        "task Agent invoke_agent spawn_agent delegate_to_agent new_task dispatch_agent "
        "subagent delegate CreateSubagent create_subagent codebase_investigator "
        "use_subagents search_subagent run_subagent subagent__execute_task "
        "dynamic_task__create_task create_sub_session",
    ),
    (
        _K.THINK,
        telling.remember,
        "save_memory memory_write remember update_memory create_memory "
        "memory__remember_memory learn",
    ),
    (
        _K.OTHER,
        telling.ask,
        "AskUserQuestion ask_user_question ask_followup_question ask_user "
        "request_user_input question plan_mode_respond act_mode_respond ask_questions",
    ),
    (
        _K.OTHER,
        telling.skill,
        "Skill activate_skill use_skill load_skill skills__loadSkill SlashCommand "
        "run_slash_command",
    ),
    (
        _K.OTHER,
        telling.finish,
        "attempt_completion finish complete_task final_output recipe__final_output submit_result",
    ),
    (_K.SWITCH_MODE, telling.enter_plan, "EnterPlanMode enter_plan_mode plan_enter"),
    (_K.SWITCH_MODE, telling.leave_plan, "ExitPlanMode exit_plan_mode plan_exit"),
    (_K.SWITCH_MODE, telling.mode, "switch_mode set_mode change_mode set_session_mode"),
)

TABLE: Final[dict[str, Entry]] = {
    squash(name): Entry(kind, shape) for kind, shape, names in _ROWS for name in names.split()
}

WRAPPERS: Final = frozenset(map(squash, ("use_mcp_tool", "call_mcp_tool", "mcp_tool", "run_mcp")))
"""Tools whose arguments name the tool that is meant."""
