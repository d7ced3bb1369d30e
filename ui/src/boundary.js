// Where an error in drawing ends: a row or a panel that can't be drawn says so, and everything beside it stays.
import { Component } from "preact";
import { html } from "htm/preact";
import { oneLine } from "./format.js";

/* Args:
     of: what is drawn; when it is another, drawing is tried again */
export class Boundary extends Component {
  static getDerivedStateFromError(error) {
    return { error };
  }

  static getDerivedStateFromProps({ of }, state) {
    return state.of === of ? null : { of, error: null };
  }

  render({ children }, { error }) {
    return error ? html`<p class="undrawn bad">This can't be drawn: ${oneLine(error.message, 200)}</p>` : children;
  }
}
