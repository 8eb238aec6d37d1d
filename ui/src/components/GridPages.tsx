import { ActionIcon, Select } from "@mantine/core";
import { IconChevronLeft, IconChevronRight } from "@tabler/icons-react";
import { type ListState, PAGE_SIZES } from "@/model/filters";
import { text } from "@/text/frame";
import classes from "./Grid.module.css";

interface Props {
  state: ListState;
  onState: (change: Partial<ListState>) => void;
  total: number | null;
  count: number;
  hasMore: boolean;
  onSoon?: ((change: Partial<ListState>) => void) | undefined;
}

export function GridPages({ state, onState, total, count, hasMore, onSoon }: Props) {
  const first = (state.page - 1) * state.size;
  if (state.page === 1 && !hasMore && count <= PAGE_SIZES[0]) return null;
  return (
    <div className={classes.pages}>
      <Select
        size="xs"
        w={84}
        data={PAGE_SIZES.map(String)}
        value={String(state.size)}
        onChange={(value) => onState({ size: Number(value), page: 1 })}
        aria-label={text.shared.rowsPerPage}
        allowDeselect={false}
      />
      <span>{text.shared.rows(count === 0 ? 0 : first + 1, first + count, total)}</span>
      <ActionIcon
        size="sm"
        disabled={state.page === 1}
        onClick={() => onState({ page: state.page - 1 })}
        onPointerEnter={() => state.page > 1 && onSoon?.({ page: state.page - 1 })}
        aria-label={text.shared.previous}
      >
        <IconChevronLeft size={16} />
      </ActionIcon>
      <ActionIcon
        size="sm"
        disabled={!hasMore}
        onClick={() => onState({ page: state.page + 1 })}
        onPointerEnter={() => hasMore && onSoon?.({ page: state.page + 1 })}
        aria-label={text.shared.next}
      >
        <IconChevronRight size={16} />
      </ActionIcon>
    </div>
  );
}
